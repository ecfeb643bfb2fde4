"""Rejected uploads get a clear 4xx; nothing is repeated, stored or charged."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests

from tests.service.support.bad_files import BAD_FILES, CANARY, MIB, SENTENCE, gzip_bomb
from tests.service.support.live import LiveService, start_cold_service, stop_live_service
from tests.service.support.traces import traces_of
from tests.service.support.uploads import (
    Person,
    add_person,
    error_in,
    free_credits,
    log_file,
    multipart,
    one_file,
    post_body,
    upload,
)
from tests.service.web.http.test_canaries import PAYLOADS
from tests.worker.support.promises import Note

MAX_MEGABYTES = 150
CODES = {400: "bad_request", 413: "payload_too_large", 422: "validation_error"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(10 * MIB, id="at_a_twentieth"),
        pytest.param(200 * MIB, id="in_full", marks=pytest.mark.stress),
    ],
)
def max_upload_bytes(request: pytest.FixtureRequest) -> int:
    size: int = request.param
    return size


@pytest.fixture(scope="module")
def service(
    database_url: str,
    redis_url: str,
    max_upload_bytes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LiveService]:
    """A web process that has received nothing but what is in this file."""
    folder = tmp_path_factory.mktemp("refusals")
    service = start_cold_service(database_url, redis_url, folder, max_upload_bytes=max_upload_bytes)
    yield service
    stop_live_service(service)


@pytest.fixture(scope="module")
def person(service: LiveService) -> Person:
    return add_person(service.sessions, 1)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_kept(service: LiveService, person: Person, redis_url: str) -> Iterator[None]:
    """After all uploads of this file: what did they leave, and what did they cost?"""
    yield
    assert traces_of(service, redis_url, CANARY) == []
    assert free_credits(service.sessions, person) == 1
    assert service.blob_names() == set()
    assert list(service.uploads.iterdir()) == []
    for web in _web_processes(service):
        assert [file for file in _open_files(web.pid) if "(deleted)" in file] == []
        assert _peak_megabytes(web.pid) <= MAX_MEGABYTES


def _web_processes(service: LiveService) -> list[psutil.Process]:
    return psutil.Process(service.process.pid).children()


def _open_files(pid: int) -> list[str]:
    """Files on disk that the process holds open, those without a name among them."""
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    return [link for link in links if "uploads" in link or "blobs" in link]


def _peak_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    peak = re.search(r"VmHWM:\s*(\d+)", status)
    assert peak is not None
    return int(peak[1]) * 1024 / 1_000_000


def _refused(response: requests.Response) -> bool:
    """Whether it is a clear 4xx that repeats nothing."""
    if response.status_code not in CODES:
        return False
    message = error_in(response, response.status_code, CODES[response.status_code])
    return len(message) > 20 and CANARY not in response.text + str(response.headers)


def test_a_rejected_file_is_free(service: LiveService, person: Person, note: Note) -> None:
    wrong = [
        name for name, file in BAD_FILES.items() if not _refused(upload(service.url, person, file))
    ]
    assert wrong == []
    note(
        "5 a rejected file gets a reason, repeats nothing and costs nothing",
        len(BAD_FILES),
        len(wrong),
    )


AS_FILES = {
    **PAYLOADS,
    **{name: file for name, file in BAD_FILES.items() if CANARY.encode() in file},
}
IN_PLACES = {
    "file name": one_file(b"no log", name=f"../../{CANARY}.jsonl"),
    "name of another part": multipart([(f'name="{CANARY}"; filename="x"', log_file())]),
    "value of another field": multipart([('name="note"', SENTENCE.encode())]),
    "second part": multipart([('name="file"; filename="x"', b""), ("name=x", SENTENCE.encode())]),
    "header of the part": one_file(b"no log", name=f'x"\r\nX-Note: {SENTENCE}\r\nX-Y: "'),
    "before the parts": SENTENCE.encode() + b"\r\n" + one_file(b"no log"),
    "after the parts": one_file(b"no log") + SENTENCE.encode(),
    "no multipart": SENTENCE.encode(),
}


def test_a_text_in_any_place_of_an_upload_is_kept_nowhere(
    service: LiveService, person: Person, note: Note
) -> None:
    """The fixture above searches the database, Redis, the blobs and the log for it."""
    wrong = [n for n, file in AS_FILES.items() if not _refused(upload(service.url, person, file))]
    wrong += [n for n, b in IN_PLACES.items() if not _refused(post_body(service.url, person, b))]
    assert wrong == []
    tried = len(AS_FILES) + len(IN_PLACES)
    assert tried >= 60
    note("7 no text of an upload is kept or repeated", tried, len(wrong))


def test_a_text_in_a_header_of_an_upload_is_kept_nowhere(
    service: LiveService, person: Person
) -> None:
    odd = {
        "Idempotency-Key": f"{CANARY}\xe9",
        "x-user-email": SENTENCE,
        "Content-Type": f"multipart/form-data; boundary={CANARY * 10}",
        "Content-Encoding": CANARY,
        "X-Request-Id": SENTENCE,
        "User-Agent": CANARY,
        "Referer": f"https://{CANARY}.example",
    }
    for name, value in odd.items():
        response = post_body(service.url, person, one_file(b"no log"), **{name: value})
        assert 400 <= response.status_code < 500, name
        assert CANARY not in response.text + str(response.headers), name


# Hostile bodies


def _blocks(total: int) -> Iterator[bytes]:
    """A body without a length whose file is far too large."""
    head, _, _ = one_file(b"\n").partition(b"\n\r\n--")
    yield head
    line = log_file(1)
    block = line * (MIB // len(line))
    for _ in range(total // len(block) + 1):
        yield block


NAMES = ("../../../tmp/x7Qp", "/tmp/x7Qp", "..\\x7Qp", "x7Qp\0.csv", "")
FIELD = ('name="x"', CANARY.encode())
FILE = ('name="file"; filename="x"', log_file())


def _hostile_bodies(limit: int) -> Iterator[tuple[bytes | Iterator[bytes], int, str]]:
    """Bodies, the status that each must get, and what the message must say."""
    yield _blocks(limit + MIB), 413, f"{limit:,}"
    yield one_file(bytes(limit + MIB)), 413, ""
    unpacked = limit * 3 // 2
    bomb = gzip_bomb(unpacked)
    assert len(bomb) < unpacked // 900
    yield one_file(bomb), 413, "unpacked"
    yield multipart([FIELD] * 10_000), 422, ""
    yield multipart([FILE] * 10_000), 422, ""
    for name in NAMES:
        yield one_file(b"no log", name=name), 422, ""
    whole = one_file(log_file())
    # In full, cut off at every seventh byte; at a twentieth of the limit, at a twentieth of these.
    for length in range(0, len(whole) - 2, 7 * 200 * MIB // limit):
        yield whole[:length], 400, ""


def _is_refused(response: requests.Response, status: int, words: str) -> bool:
    error = response.json()["error"]
    found = response.status_code, error["code"]
    return found == (status, CODES[status]) and words in error["message"]


def test_hostile_bodies_are_rejected_within_bounds(
    service: LiveService, person: Person, max_upload_bytes: int, note: Note
) -> None:
    """Far too large, packed a thousand times, in 10,000 parts, cut off, named as other files.

    The message says how large a file may be, packed or not.
    """
    tries = losses = 0
    for body, status, words in _hostile_bodies(max_upload_bytes):
        tries += 1
        losses += not _is_refused(post_body(service.url, person, body), status, words)
    losses += any(_peak_megabytes(web.pid) > MAX_MEGABYTES for web in _web_processes(service))
    losses += len(list(service.uploads.iterdir())) + Path("/tmp/x7Qp").exists()
    note("32 hostile bodies are refused, memory stays small, no file is left", tries, losses)
