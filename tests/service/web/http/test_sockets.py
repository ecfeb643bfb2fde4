"""Broken, incomplete, oversized or missing bodies, on real sockets."""

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psutil
import pytest

from detectors.contract import MAX_BATCH_BYTES
from service.web.http.headers import SECURITY_HEADERS
from tests.service.support.live import LiveService
from tests.service.support.scenes import INGEST, Tenant, batch

BODY = json.dumps(batch()).encode()
AUDITS_LINE = b"GET /api/v1/audits HTTP/1.1\r\nHost: localhost\r\n"


def _answer(live: LiveService, request: bytes, *, is_whole: bool = False) -> bytes:
    """Everything that comes back until the server closes the connection."""
    address = urlsplit(live.url)
    answer = b""
    with socket.create_connection((address.hostname, address.port or 80), timeout=20) as connection:
        connection.sendall(request)
        if is_whole:
            connection.shutdown(socket.SHUT_WR)
        while received := connection.recv(65_536):
            answer += received
    return answer


def _ingest(tenant: Tenant, length: int, body: bytes) -> bytes:
    lines = (
        f"POST {INGEST} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {tenant.key}",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        "Connection: close",
    )
    return "\r\n".join([*lines, "", ""]).encode() + body


def _error(answer: bytes, status: int, code: str) -> dict[str, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    error: dict[str, str] = json.loads(body)["error"]
    assert (error["code"], set(error)) == (code, {"code", "message", "request_id"})
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert headers["X-Request-Id"] == error["request_id"]
    assert headers.items() >= SECURITY_HEADERS.items()
    assert headers["Content-Type"] == "application/json"
    return error


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"CANARY\r\n\r\n", 400),
        (b"GET /api/v1/audits?limit=\xd9\xa5 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (AUDITS_LINE + b"X-CANARY : 1\r\n\r\n", 400),
        (AUDITS_LINE + b"Content-Length: CANARY\r\n\r\n", 400),
        (AUDITS_LINE + b"Expect: CANARY\r\n\r\n", 417),
        (AUDITS_LINE + b"X-Long: " + b"CANARY" * 10_000 + b"\r\n\r\n", 431),
        (b"GET /api/v1/audits?CANARY=" + b"1" * 9_000 + b" HTTP/1.1\r\n\r\n", 414),
    ],
    ids=["line", "raw utf-8", "header", "length", "expect", "long header", "long address"],
)
def test_what_is_no_proper_http_has_the_envelope_and_a_log_line(
    live: LiveService, request_bytes: bytes, status: int
) -> None:
    answer = _answer(live, request_bytes)
    error = _error(answer, status, "bad_request")
    log = live.log_file.read_text()
    assert error["request_id"] in log
    assert b"CANARY" not in answer
    assert "CANARY" not in log


def test_headers_of_a_forwarder_change_neither_the_route_nor_the_scheme(live: LiveService) -> None:
    """Also where a proxy on the same machine passes them on from anywhere."""
    forged = b"SCRIPT_NAME: /api\r\nPATH_INFO: /healthz\r\nX-Forwarded-Proto: https\r\n"
    more = b"X-Forwarded-Ssl: off\r\nConnection: close\r\n\r\n"
    _error(_answer(live, AUDITS_LINE + forged + more), 401, "unauthorized")


def test_an_incomplete_body_is_rejected_even_if_it_parses_as_a_batch(live: LiveService) -> None:
    tenant, before = live.add_tenant(), live.blob_names()
    answer = _answer(live, _ingest(tenant, len(BODY) + 1, BODY), is_whole=True)
    assert "incomplete" in _error(answer, 400, "bad_request")["message"]
    assert live.blob_names() == before


def test_a_body_that_is_announced_one_byte_too_large_is_not_waited_for(live: LiveService) -> None:
    size = MAX_BATCH_BYTES + 1
    answer = _answer(live, _ingest(live.add_tenant(), size, b""), is_whole=False)
    assert f"{MAX_BATCH_BYTES:,} bytes" in _error(answer, 413, "payload_too_large")["message"]


def test_a_silent_sender_is_disconnected(live: LiveService) -> None:
    """Or a few of them would hold every thread of a process for as long as they like."""
    with ThreadPoolExecutor() as pool:
        amid_headers = pool.submit(_answer, live, AUDITS_LINE)
        _error(_answer(live, _ingest(live.add_tenant(), 500, b"{")), 400, "bad_request")
        assert amid_headers.result() == b""


def test_connections_are_spread_over_the_processes(live: LiveService) -> None:
    """Without a wait before it accepts, one process gets all that come one after the other."""
    address, opened = urlsplit(live.url), list[http.client.HTTPConnection]()
    for _ in range(20):
        opened.append(http.client.HTTPConnection(address.netloc, timeout=20))
        opened[-1].request("GET", "/healthz")
        opened[-1].getresponse().read()
    clients = {each.sock.getsockname()[1] for each in opened}
    processes = psutil.Process(live.process.pid).children()
    counts = [
        sum(bool(each.raddr) and each.raddr.port in clients for each in process.net_connections())
        for process in processes
    ]
    for each in opened:
        each.close()
    assert sum(counts) == len(opened)
    assert min(counts) >= 2
