"""A response sent before the body was read reaches a client that is still sending."""

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests

from tests.service.support.bad_files import MIB
from tests.service.support.live import LiveService, start_live_service, stop_live_service
from tests.service.support.scenes import AUDITS
from tests.service.support.uploads import MULTIPART, Person, add_person, one_file, upload

TOO_LARGE = 201 * MIB
SIZE = 21 * MIB  # more than the buffers on the way hold
SIGNED_OUT = Person("", "", {})


@pytest.fixture(scope="module")
def service(
    database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    """With room for the body, so that it is refused for other reasons first."""
    service = start_live_service(database_url, redis_url, tmp_path_factory.mktemp("early"))
    yield service
    stop_live_service(service)


@pytest.fixture(scope="module")
def body() -> bytes:
    return one_file(bytes(SIZE))


def _send_stubbornly(live: LiveService, person: Person, body: bytes) -> int:
    """Send it all, however early the answer comes, and only then look at the answer."""
    address = urlsplit(live.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    connection.request("POST", AUDITS, body, {**person.headers, "Content-Type": MULTIPART})
    response = connection.getresponse()
    assert b'"error"' in response.read()
    connection.close()
    return response.status


@pytest.mark.parametrize("status", [401, 402])
def test_an_early_response_reaches_a_client_that_keeps_sending(
    service: LiveService, body: bytes, status: int
) -> None:
    person = SIGNED_OUT if status == 401 else add_person(service.sessions)
    assert _send_stubbornly(service, person, body) == status
    headers = {**person.headers, "Content-Type": MULTIPART}
    pieces = (body[start : start + MIB] for start in range(0, len(body), MIB))
    response = requests.post(f"{service.url}{AUDITS}", pieces, headers=headers, timeout=60)
    assert response.status_code == status


def test_a_file_too_large_gets_a_reason(live: LiveService) -> None:
    body = one_file(bytes(TOO_LARGE))
    assert _send_stubbornly(live, add_person(live.sessions, 1), body) == 413


def test_too_many_requests_get_a_reason(
    database_url: str, redis_url: str, body: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fast")
    service = start_live_service(database_url, redis_url, folder, upload_limit_per_minute=1)
    try:
        person = add_person(service.sessions)
        assert upload(service.url, person, b"").status_code == 402
        assert _send_stubbornly(service, person, body) == 429
    finally:
        stop_live_service(service)


def test_an_upload_that_is_rejected_on_its_way_reads_why(live: LiveService) -> None:
    """A second part ends it, with most of the body still to come."""
    person = add_person(live.sessions, 1)
    first = one_file(b"x").removesuffix(b"--\r\n") + b"\r\n"
    assert _send_stubbornly(live, person, first + one_file(bytes(SIZE))) == 422


def test_the_connection_of_an_early_answer_is_not_used_again(live: LiveService) -> None:
    person, address = add_person(live.sessions), urlsplit(live.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    headers = {**person.headers, "Content-Type": MULTIPART}
    for _ in range(3):
        connection.request("POST", AUDITS, one_file(bytes(MIB)), headers)
        response = connection.getresponse()
        assert response.status == 402
        response.read()
    connection.close()
