"""Hand-written hostile requests to every described operation, on the running service.

They find faults that a generator missed.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.service.support.fuzzed import CREDENTIALS, Target
from tests.worker.support.promises import Note, at_a_fortieth, sampled

ENDS_SESSIONS = ("/auth/verify", "/auth/logout")
BODIES: tuple[tuple[str, bytes], ...] = (
    ("application/json", b""),
    ("application/json", b"{"),
    ("application/json", b"null"),
    ("application/json", b"[]"),
    ("application/json", b'"x"'),
    ("application/json", b"1e400"),
    ("application/json", b"NaN"),
    ("application/json", b'{"records": {"a": 1}, "email": [], "amount": {}}'),
    ("application/json", b'{"email": "\\ud800@example.org", "token": "\\u0000"}'),
    ("application/json", b'{"email": {"$gt": ""}, "next": ["/"]}'),
    ("application/json", b"[" * 100_000),
    ("application/json", b"\xff\xfe{\x00}\x00"),
    ("application/json; charset=utf-7", b"{}"),
    ("application/xml", b"<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><x>&a;</x>"),
    ("application/x-www-form-urlencoded", b"email=%00&grant_type=%ff&token=%00&csrf_token=%00"),
    ("application/x-www-form-urlencoded", b"a=" + b"x" * 200_000),
    ("application/x-www-form-urlencoded", b"&".join(b"a%d=" % n for n in range(2_000))),
    ("multipart/form-data", b"no boundary"),
    ("multipart/form-data; boundary=x", b"--x\r\n\r\n--x--"),
    ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="file'),
    ("", b"\0" * 1_000),
    ("text/plain\xa0;q", b"x"),
)
HEADERS: tuple[dict[str, str], ...] = (
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer " + "x" * 4_000},
    {"Authorization": "Bearer rt_\xe4"},
    {"Authorization": "Basic \xe4"},
    {"Authorization": "Negotiate x"},
    {"Cookie": "tallystick_session=x.y.z; tallystick_session=\xe4"},
    {"X-Admin-Token": "\xe4"},
    {"Idempotency-Key": "\xe4" * 300},
    {"If-None-Match": '"' * 100},
    {"Accept": "*/*;q=\xe4"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Content-Encoding": "br"},
    {"X-Request-Id": "x\xe4y"},
    {"x-user-email": "\xe4@\xe4"},
    {"Range": "bytes=5-1"},
    {"Stripe-Signature": "t=x,v1=\xe4", "Paddle-Signature": "ts=;h1="},
)
QUERIES = (
    *("limit=%00", "limit=1&limit=2", "cursor=%FF", "since=%2B", "status[]=done", "a" * 2_000),
    *("%", "=", "&&&", "token=%00", "token=" + "x" * 3_000, "finding=%00", "audits_page=1e9"),
    *("client_id=%00&redirect_uri=%00", "response_type[$ne]=x", "page=\u0664", "x=%ED%A0%80"),
)
PATHS = (
    *("%00", "%0d%0aX: y", "%ff", "%ed%a0%80", "..%2f..%2fetc%2fpasswd", ".", "%20", "'", "*"),
    *("%2e%2e", "x" * 200, "x" * 201, "x" * 3_000, "{{7*7}}", "%25s%25n", "\u0665", "0", "null"),
)
# Said of a request before it is known what it asks for.
TOO_LONG = frozenset({414, 431})
# By what an attempt changes: the query, the headers, the path or the body.
KINDS = {("params",), ("headers",), (), ("data", "headers")}


@at_a_fortieth
@pytest.mark.parametrize("who", sampled(CREDENTIALS, 3))
def test_a_hostile_corpus_gets_described_answers(
    target: Target, note: Note, who: str, share: float
) -> None:
    """A fortieth is every fortieth attempt, beginning at another one for each credential."""
    number, tried, wrong, own = CREDENTIALS.index(who), 0, [], target.caller(who).headers
    kinds = set()
    with requests.Session() as session:
        for method, path, operation in _operations(target.document()):
            described = {int(status) for status in operation["responses"]} | TOO_LONG
            # A hostile id may make another path of it, where there is nothing.
            described |= {404} if "{" in path else set()
            for address, sent in _attempts(target, method, path):
                number += 1
                if number % round(1 / share):
                    continue
                kinds.add(tuple(sorted(sent)))
                headers = {**own, **sent.pop("headers", {})}
                answer = _send(session, method, address, headers=headers, **sent)
                tried += 1
                if answer.status_code not in described or answer.status_code >= 500:
                    wrong.append((method, address, headers, sent, answer.status_code))
    if wrong:
        pytest.fail("\n".join(map(repr, wrong[:20])), pytrace=False)
    assert tried >= 1_000 * share
    assert kinds == KINDS
    note(f"31 hand-written hostile requests, {who}: described", tried, len(wrong))


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """But for signing in and out, which ends the session that the others are tried with."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method in ("get", "post") and path not in ENDS_SESSIONS:
                yield method, path, operation


def _attempts(target: Target, method: str, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    known = {
        "audit_id": target.known["path.audit_id"][0],
        "token": target.known["path.token"][0],
        "account_id": "a" * 32,
    }
    address = target.url + path.format(**known)
    for query in QUERIES:
        yield address, {"params": query}
    for headers in HEADERS:
        yield address, {"headers": headers}
    for hostile in PATHS if "{" in path else ():
        yield target.url + path.format(**dict.fromkeys(known, hostile)), {}
    if method == "post":
        for kind, body in BODIES:
            yield address, {"headers": {"Content-Type": kind}, "data": body}


def _send(
    session: requests.Session, method: str, url: str, *, headers: dict[str, str], **sent: Any
) -> requests.Response:
    encoded = {name: value.encode("latin-1") for name, value in headers.items()}
    return session.request(method, url, headers=encoded, allow_redirects=False, timeout=30, **sent)
