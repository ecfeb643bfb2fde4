"""One file of an account is checked at a time; others wait, or get a 429 and keep their credit."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask

from service.errors import RateLimitedError
from service.web.intake import upload_turns as turns
from service.web.intake.upload_turns import UploadTurns, upload_turns
from tests.service.support.live import LiveService
from tests.service.support.scenes import AUDITS, Sessions, error_of
from tests.service.support.uploads import (
    MULTIPART,
    add_person,
    error_in,
    free_credits,
    log_file,
    one_file,
    upload,
)

MakeApp = Callable[..., Flask]


def test_a_second_turn_waits_for_the_first() -> None:
    shared, order = UploadTurns(), []

    def second() -> None:
        with shared.turn("a"):
            order.append("second")

    with shared.turn("a"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_other_accounts_do_not_wait() -> None:
    shared = UploadTurns()
    with shared.turn("a"), shared.turn("b", wait_seconds=0):
        pass


def test_a_turn_is_taken_across_processes_and_ends_with_its_process() -> None:
    """The lock is the kernel's, so a killed process leaves none."""
    shared = UploadTurns()
    shared.share()
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        with shared.turn("a"):
            os.write(tell, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    with pytest.raises(RateLimitedError), shared.turn("a", wait_seconds=0.1):
        pass
    os.kill(child, 9)
    os.waitpid(child, 0)
    with shared.turn("a", wait_seconds=1):
        pass


def test_a_file_whose_turn_does_not_come_keeps_its_credit(
    share_app: MakeApp, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, person = share_app().test_client(use_cookies=False), add_person(sessions, 1)
    body = one_file(log_file())
    with upload_turns.turn(person.account_id):
        monkeypatch.setattr(turns, "WAIT_SECONDS", 0.1)
        answer = client.post(
            AUDITS, data=body, headers={**person.headers, "Content-Type": MULTIPART}
        )
    assert "another file of yours" in error_of(answer, 429, "rate_limited")
    assert int(answer.headers["Retry-After"]) >= 1
    assert free_credits(sessions, person) == 1
    answer = client.post(AUDITS, data=body, headers={**person.headers, "Content-Type": MULTIPART})
    assert answer.status_code == 201


@pytest.mark.parametrize("lines", [10_000, pytest.param(400_000, marks=pytest.mark.stress)])
def test_parallel_files_lose_nothing(live: LiveService, lines: int) -> None:
    """Each becomes an audit or keeps its credit; in full, also where they take seconds to check."""
    person = add_person(live.sessions, 4)
    file = log_file(1) * lines
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: upload(live.url, person, file), range(4)))
    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) <= {201, 429}
    assert statuses[201] >= 1
    assert free_credits(live.sessions, person) == 4 - statuses[201]
    for answer in answers:
        if answer.status_code == 429:
            error_in(answer, 429, "rate_limited")
