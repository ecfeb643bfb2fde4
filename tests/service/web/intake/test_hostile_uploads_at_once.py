"""Row 35 on a live server: nine hostile uploads at once hold up nobody else."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

import pytest
import requests

from tests.adversarial.files import FILES
from tests.service.support.live import LiveService
from tests.service.support.uploads import Person, add_person, upload
from tests.worker.support.promises import Note, in_full_only, sampled

AT_ONCE: Final = 9
FILE_BYTES: Final = 1 << 20
# Some attacks are valid logs, and an account that has too many queued gets a 429.
ANSWERS: Final = {201, 422, 429}


@in_full_only
@pytest.mark.parametrize("accounts", sampled([1, AT_ONCE], 2, ["one account", "nine accounts"]))
def test_sign_in_is_quick_while_hostile_files_are_uploaded(
    live: LiveService, note: Note, accounts: int, share: float
) -> None:
    """By default, tests/adversarial/test_cost.py measures what the files cost."""
    size = round(FILE_BYTES * share)
    files = [attack(size) for attack in list(FILES.values())[:: round(1 / share)]]
    people = [add_person(live.sessions, credits=len(files)) for _ in range(accounts)]
    requests.get(f"{live.url}/sign-in", timeout=60)  # the templates are compiled
    with ThreadPoolExecutor(AT_ONCE) as pool:
        uploads = [
            pool.submit(_status, live.url, people[number % accounts], file)
            for number, file in enumerate(files)
        ]
        waits = sorted(_answer_times(live, uploads))
    assert {each.result() for each in uploads} <= ANSWERS
    p95 = waits[int(len(waits) * 0.95)]
    kind = f"{len(files)} hostile files, nine at once, of {accounts}"
    note(f"35 {kind}: /sign-in p95 {p95 * 1000:.0f} ms", len(waits), p95 > 0.5)


def _status(url: str, person: Person, file: bytes) -> int:
    return upload(url, person, file).status_code


def _answer_times(live: LiveService, uploads: Sequence[Future[int]]) -> Iterator[float]:
    """Ask for /sign-in on new connections, twenty times a second, until the uploads end."""
    pending = True
    while pending:
        asked_at = time.monotonic()
        assert requests.get(f"{live.url}/sign-in", timeout=60).status_code == 200
        yield time.monotonic() - asked_at
        pending = bool(wait(uploads, timeout=0.05).not_done)
