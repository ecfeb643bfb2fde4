"""Concurrent uploads, and uploads that are interrupted, killed or out of space."""

import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from sqlalchemy import func, select

from service.models import Audit
from service.operations.local.servers import EmbeddedServers
from tests.service.support.live import (
    ONE_PROCESS,
    LiveService,
    start_live_service,
    stop_live_service,
)
from tests.service.support.scenes import AUDITS
from tests.service.support.uploads import (
    MULTIPART,
    Person,
    add_person,
    error_in,
    free_credits,
    log_file,
    one_file,
    upload,
)
from tests.worker.support.promises import (
    Note,
    always_in_full,
    at_a_twentieth,
    at_both_scales,
    in_full_only,
    sampled,
    scaled,
)
from tests.worker.support.waiting import wait_until

CLIENTS = 50
ROOM = 3_000_000


def _at_once(live: LiveService, person: Person, count: int, key: str | None) -> list[int]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        uploads = [pool.submit(upload, live.url, person, log_file(), key=key) for _ in range(count)]
        return [one.result().status_code for one in uploads]


def _audits(live: LiveService, person: Person) -> int:
    with live.sessions() as session:
        owned = Audit.account_id == person.account_id
        return session.scalar(select(func.count()).where(owned)) or 0


@at_a_twentieth
@pytest.mark.parametrize("credits", sampled([1, 10], 2))
def test_of_fifty_uploads_at_once_as_many_pass_as_there_are_credits(
    live: LiveService, note: Note, share: float, credits: int
) -> None:
    losses, rounds = 0, scaled(20, share)
    for _ in range(rounds):
        person = add_person(live.sessions, credits)
        statuses = Counter(_at_once(live, person, CLIENTS, None))
        losses += statuses != {201: credits, 402: CLIENTS - credits}
        losses += _audits(live, person) != credits or free_credits(live.sessions, person) != 0
    note(f"3 of {CLIENTS} uploads on {credits} credits exactly {credits} pass", rounds, losses)


@in_full_only
def test_a_hundred_uploads_with_one_key_have_one_effect(
    live: LiveService, note: Note, share: float
) -> None:
    """Even with a single credit, nobody is asked to pay for a file that is already paid for.

    By default, two tabs have one key in the test below.
    """
    tries, losses = scaled(100, share), 0
    for credits in (1, 2):
        person, before = add_person(live.sessions, credits), live.blob_names()
        statuses = Counter(_at_once(live, person, tries, "one key"))
        losses += statuses != {201: 1, 200: tries - 1}
        losses += _audits(live, person) != 1 or len(live.blob_names() - before) != 1
        losses += free_credits(live.sessions, person) != credits - 1
    note("8 uploads at once with one key make one audit", 2 * tries, losses)


def test_two_tabs_with_one_key_and_different_files_make_one_audit(live: LiveService) -> None:
    person = add_person(live.sessions, 2)
    with ThreadPoolExecutor(2) as pool:
        files = (log_file(1), log_file(2))
        tabs = [pool.submit(upload, live.url, person, file, key="k") for file in files]
        assert sorted(tab.result().status_code for tab in tabs) == [201, 422]
    assert (_audits(live, person), free_credits(live.sessions, person)) == (1, 1)


# Cut off


@contextmanager
def _begun(live: LiveService, person: Person, announced: int) -> Iterator[socket.socket]:
    """An upload of which the head is sent."""
    address = urlsplit(live.url)
    head = [
        f"POST {AUDITS} HTTP/1.1",
        "Host: localhost",
        f"Content-Type: {MULTIPART}",
        f"Content-Length: {announced}",
        *(f"{name}: {value}" for name, value in person.headers.items()),
    ]
    with socket.create_connection((address.hostname, address.port or 80), timeout=20) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        yield connection


def _web_pids(live: LiveService) -> list[int]:
    return [process.pid for process in psutil.Process(live.process.pid).children()]


def _received_files(live: LiveService) -> list[str]:
    """The files without a name that the web processes hold open."""
    found = []
    for pid in _web_pids(live):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(link)
            except FileNotFoundError:
                continue
            found += [target] if str(live.uploads) in target else []
    return found


def _is_clean(live: LiveService, before: set[str]) -> bool:
    is_empty = not any(live.uploads.iterdir()) and live.blob_names() == before
    return is_empty and not _received_files(live)


@always_in_full
def test_an_upload_that_is_cut_off_is_free(live: LiveService, note: Note, occasion: str) -> None:
    """At any place: within the headers, the file, its last line, the closing boundary."""
    person, before = add_person(live.sessions, 1), live.blob_names()
    body = one_file(log_file(20_000))
    tries = 20
    for number in range(tries):
        with _begun(live, person, len(body)) as connection:
            connection.sendall(body[: len(body) * number // tries + 1])
            if number % 2:  # reset, and not only closed
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    wait_until(lambda: _is_clean(live, before), 10)
    losses = _audits(live, person) + (free_credits(live.sessions, person) != 1)
    note("5 an upload that is cut off costs nothing and leaves nothing", tries, losses)


def test_an_upload_that_was_cut_off_can_be_sent_again_with_its_key(live: LiveService) -> None:
    person = add_person(live.sessions, 1)
    with _begun(live, person, 1_000) as connection:
        connection.sendall(one_file(log_file())[:100])
    assert upload(live.url, person, log_file(), key="k").status_code == 201


def _kill_web_amid(live: LiveService, person: Person, body: bytes) -> None:
    """SIGKILL to both web processes once most of the body is received; others take over."""
    with _begun(live, person, len(body)) as connection:
        connection.sendall(body[:-10])
        wait_until(lambda: _received_files(live), 10)
        killed = set(_web_pids(live))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(set(_web_pids(live)) - killed) == 2, 20)


@at_both_scales
def test_an_upload_that_is_killed_leaves_nothing(
    live: LiveService, note: Note, share: float
) -> None:
    person, tries = add_person(live.sessions, 1), scaled(5, share)
    before = live.blob_names()
    for _ in range(tries):
        _kill_web_amid(live, person, one_file(log_file(10_000)))
    wait_until(lambda: _is_clean(live, before), 10)
    note("5 an upload that is killed leaves nothing", tries, _audits(live, person))
    assert upload(live.url, person, log_file()).status_code == 201


@contextmanager
def _filled_disk(live: LiveService, room: int) -> Iterator[None]:
    """The kernel refuses to write files beyond this size, as it does on a full disk."""
    processes = [psutil.Process(pid) for pid in _web_pids(live)]
    for process in processes:
        process.rlimit(psutil.RLIMIT_FSIZE, (room, psutil.RLIM_INFINITY))
    try:
        yield
    finally:
        for process in processes:
            process.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))


def test_an_upload_that_finds_no_room_is_free_and_may_be_tried_again(live: LiveService) -> None:
    """Neither while it is received, nor while what passed is stored."""
    person, before = add_person(live.sessions, 1), live.blob_names()
    received, stored = log_file(40_000), _growing_log()
    assert len(received) > ROOM > len(stored)
    with _filled_disk(live, ROOM):
        for file in (received, stored):
            response = upload(live.url, person, file)
            error_in(response, 503, "unavailable")
            assert int(response.headers["Retry-After"]) > 0
            assert _is_clean(live, before)
        assert free_credits(live.sessions, person) == 1
        assert upload(live.url, person, log_file()).status_code == 201


def _growing_log() -> bytes:
    """A CSV that takes more room once it is stored, each line with the names of its fields."""
    row = b"2026-01-01,openai,gpt-5.4,1,2\n"
    return b"ts,provider,model,prompt_tokens,completion_tokens\n" + row * 60_000


@in_full_only
def test_uploads_go_on_without_redis_and_rejected_ones_stay_free(
    database_url: str, servers_folder: Path, tmp_path: Path, note: Note, share: float
) -> None:
    """By default, `test_upload_limits.py` does without Redis."""
    tries, losses = scaled(30, share), 0
    with EmbeddedServers(servers_folder / "redis alone", with_postgres=False) as servers:
        live = start_live_service(database_url, servers.redis_url, tmp_path, **ONE_PROCESS)
    try:
        person = add_person(live.sessions, tries)
        for _ in range(tries):
            losses += upload(live.url, person, b"no log").status_code != 422
            losses += upload(live.url, person, log_file()).status_code != 201
        losses += free_credits(live.sessions, person)
    finally:
        stop_live_service(live)
    note("5 without Redis uploads are taken, and refused for free", 2 * tries, losses)
