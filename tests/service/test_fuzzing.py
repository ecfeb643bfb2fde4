"""Generated and hand-written hostile requests at every operation of /openapi.json, live.

No answer is a fault of the service, none has a status, a type, a header or a shape that is not
described.
"""

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.service.live import LiveService, start_live_service, stop_live_service
from tests.service.oauth_flow import add_application, add_token
from tests.service.scenes import ADMIN_TOKEN, INGEST, batch, bearer
from tests.service.uploads import add_person
from tests.worker.promises import Note, at_both_scales, scaled

EXAMPLES = 200
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance"
)
CREDENTIALS = (
    *("none", "ingest key", "read token", "access token", "session", "admin", "oauth client"),
)
# What would end the session that all others are tried with.
ENDS_SESSIONS = ("--exclude-path=/auth/logout",)
OPTIONS = (
    *("--phases=examples,fuzzing", f"--checks={CHECKS}", "--continue-on-failure", "--no-shrink"),
    *("--generation-with-security-parameters=false", "--generation-database=none"),
    *("--max-redirects=0", "--no-color", "--workers=1", *ENDS_SESSIONS),
)


@pytest.fixture(scope="module")
def target(
    database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    """A service of its own, with every part switched on and no limit in the way."""
    limits = ("magic_link", "early_access", "oauth", "read")
    service = start_live_service(
        database_url,
        redis_url,
        tmp_path_factory.mktemp("target"),
        admin_token=ADMIN_TOKEN,
        stripe_webhook_secret="whsec_" + "x" * 32,
        paddle_webhook_secret="pdl_" + "x" * 32,
        **{f"{name}_limit_per_minute": 1_000_000 for name in limits},
    )
    yield service
    stop_live_service(service)


@pytest.fixture(scope="module")
def credentials(target: LiveService) -> dict[str, dict[str, str]]:
    """The headers of each kind of caller; all of one account, which has an audit."""
    tenant = target.add_tenant()
    person = add_person(target.sessions, credits=3)
    application = add_application(target.sessions, tenant.account_id)
    token = add_token(target.sessions, application, tenant.account_id)
    pair = f"{application.client_id}:{application.secret}".encode()
    return {
        "none": {"X-Nobody": "nobody"},
        "ingest key": tenant.writes,
        "read token": tenant.reads,
        "access token": bearer(token),
        "session": person.headers,
        "admin": {"X-Admin-Token": ADMIN_TOKEN},
        "oauth client": {"Authorization": f"Basic {base64.b64encode(pair).decode()}"},
    }


@pytest.fixture(scope="module")
def audit_id(target: LiveService, credentials: dict[str, dict[str, str]]) -> str:
    headers = credentials["ingest key"]
    sent = requests.post(f"{target.url}{INGEST}", json=batch(), headers=headers, timeout=10)
    return str(sent.json()["audit_id"])


@at_both_scales
@pytest.mark.parametrize("who", CREDENTIALS)
@pytest.mark.timeout(1800)
def test_generated_requests_get_described_answers(
    target: LiveService,
    credentials: dict[str, dict[str, str]],
    audit_id: str,
    tmp_path: Path,
    note: Note,
    who: str,
    share: float,
) -> None:
    count = scaled(EXAMPLES, share)
    [(name, value)] = credentials[who].items()
    config = tmp_path / "schemathesis.toml"
    if who == "access token":
        config.write_text(f'[parameters]\n"path.audit_id" = "{audit_id}"\n')
    else:
        config.write_text("")
    program = str(Path(sys.executable).with_name("schemathesis"))
    where = [f"{target.url}/openapi.json", f"--url={target.url}", f"-H{name}: {value}"]
    command = [program, f"--config-file={config}", "run", *where, f"-n{count}", *OPTIONS]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.fail(ran.stdout[-6_000:] + ran.stderr[-2_000:], pytrace=False)
    note(f"{count} generated requests an operation, {who}: described", count * 29, 0)


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
# Anything may be too long, of another method, or from another site's page.
ALWAYS = frozenset({400, 403, 404, 405, 413, 414, 431})


@pytest.mark.parametrize("who", ["none", "read token", "session", "admin"])
def test_a_hostile_corpus_gets_no_fault_and_no_secret_out(
    target: LiveService, credentials: dict[str, dict[str, str]], audit_id: str, who: str
) -> None:
    document = requests.get(f"{target.url}/openapi.json", timeout=10).json()
    tried = 0
    with requests.Session() as session:
        for method, path, operation in _operations(document):
            url = target.url + path.format(audit_id=audit_id, token="x")
            for sent in _attempts(method):
                headers = {**credentials[who], **sent.pop("headers", {})}
                answer = _send(session, method, url, headers=headers, **sent)
                described = {int(status) for status in operation["responses"]} | ALWAYS
                assert answer.status_code < 500, (method, path, sent)
                assert answer.status_code in described, (method, path, sent, answer.status_code)
                tried += 1
    assert tried > 500


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method in ("get", "post") and path != "/auth/logout":
                yield method, path, operation


def _attempts(method: str) -> Iterator[dict[str, Any]]:
    for query in QUERIES:
        yield {"params": query}
    for headers in HEADERS:
        yield {"headers": headers}
    if method == "post":
        for kind, body in BODIES:
            yield {"headers": {"Content-Type": kind}, "data": body}


def _send(
    session: requests.Session, method: str, url: str, *, headers: dict[str, str], **sent: Any
) -> requests.Response:
    encoded = {name: value.encode("latin-1") for name, value in headers.items()}
    return session.request(
        method,
        url,
        headers=encoded,
        allow_redirects=False,
        timeout=30,
        **sent,
    )
