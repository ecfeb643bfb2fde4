"""No text is stored: a canary in a rejected request is in no response, log, row, blob or key."""

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests

import detectors
from detectors.formats.adapters import adapters
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case
from tests.service.support.live import LiveService
from tests.service.support.scenes import INGEST, INGEST_V2, Tenant, record
from tests.service.support.traces import traces_of
from tests.service.support.uploads import add_person, openai_line, upload
from tests.service.web.http.exported import with_canary
from tests.worker.support.promises import sampled

CANARY = "CANARYx7Qp"
SENTENCE = f"please keep {CANARY} secret"
_GOOD = json.dumps(record())


def _in_record(fields: object) -> bytes:
    return json.dumps({"records": [record(), fields]}).encode()


PAYLOADS = {
    "prompt": _in_record(record(prompt=SENTENCE)),
    "messages": _in_record(record(messages=[{"role": "user", "content": SENTENCE}])),
    "content": _in_record(record(content=SENTENCE)),
    "choices": _in_record(record(choices=[{"message": {"content": SENTENCE}}])),
    "completion": _in_record(record(completion=SENTENCE)),
    "other case": _in_record(record(Prompt_Tokens=SENTENCE)),
    "nested": _in_record(record(usage={"a": {"b": [SENTENCE]}})),
    "field name": _in_record(record(**{SENTENCE: 1})),
    "long field name": _in_record(record(**{CANARY * 20: 1})),
    "field name with a line": _in_record(record(**{f"a\n{CANARY}": 1})),
    "empty field name": _in_record({**record(), "": SENTENCE}),
    "value of a count": _in_record(record(prompt_tokens=SENTENCE)),
    "value of a time": _in_record(record(ts=SENTENCE)),
    "value of a latency": _in_record(record(latency_ms=SENTENCE)),
    "value of a hash": _in_record(record(prefix_hash=SENTENCE)),
    "value of a provider": _in_record(record(provider=SENTENCE)),
    "long tag": _in_record(record(tag=CANARY + "x" * 200)),
    "tag with a line": _in_record(record(tag=f"{CANARY}\nx")),
    "tag with a NUL": _in_record(record(tag=f"{CANARY}\0")),
    "tag as an object": _in_record(record(tag={"text": SENTENCE})),
    "tag as a list": _in_record(record(tag=[SENTENCE])),
    "model as a list": _in_record(record(model=[SENTENCE])),
    "record as a string": _in_record(SENTENCE),
    "record as a list": _in_record([SENTENCE]),
    "beside the records": json.dumps({"records": [record()], "prompt": SENTENCE}).encode(),
    "key beside the records": json.dumps({"records": [record()], SENTENCE: 1}).encode(),
    "instead of the records": json.dumps({"records": SENTENCE}).encode(),
    "as the body": json.dumps(SENTENCE).encode(),
    "as plain text": SENTENCE.encode(),
    "after the JSON": (json.dumps({"records": [record()]}) + SENTENCE).encode(),
    "in a comment": f'{{"records": [{_GOOD}] /* {SENTENCE} */}}'.encode(),
    "in a broken string": f'{{"records": [{{"tag": "{SENTENCE}'.encode(),
    "in UTF-16": json.dumps({"records": [SENTENCE]}).encode("utf-16"),
    "as CSV": f"ts,model,prompt\n2026-01-01,{CANARY},{SENTENCE}\n".encode(),
    "before a surrogate": f'{{"records": [{{"tag": "{CANARY}\\ud800"}}]}}'.encode(),
    "in a duplicate key": f'{{"records": [{{"prompt": "{SENTENCE}", "prompt": 1}}]}}'.encode(),
    "among 5,001": json.dumps({"records": [record(tag=CANARY)] * 5001}).encode(),
}


# Where text could hide in the second version's fields.
SECOND: dict[str, dict[str, Any]] = {
    "name of a unit": {"units": {SENTENCE: 1}},
    "value of a unit": {"units": {"code_executions": SENTENCE}},
    "within a unit": {"units": {"code_executions": {"text": [SENTENCE]}}},
    "name within a unit": {"units": {"code_executions": {SENTENCE: 1}}},
    "units as text": {"units": SENTENCE},
    "hash of a level": {"prefix_hashes": ["0" * 16, SENTENCE]},
    "levels as text": {"prefix_hashes": SENTENCE},
    "within a level": {"prefix_hashes": [{SENTENCE: SENTENCE}]},
    "reported cost": {"reported_usd": SENTENCE},
    "billing": {"billing": SENTENCE},
    "billing as a list": {"billing": [SENTENCE]},
}


@pytest.fixture(scope="module")
def tenant(live: LiveService) -> Tenant:
    return live.add_tenant()


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_kept(live: LiveService, redis_url: str) -> Iterator[None]:
    """After all requests of this file: what did they leave behind?"""
    yield
    assert traces_of(live, redis_url, CANARY) == []


@pytest.mark.parametrize("name", sampled(PAYLOADS, 5))
def test_a_canary_in_a_rejected_body_is_kept_nowhere(
    live: LiveService, tenant: Tenant, name: str
) -> None:
    for encoding, body in ((None, PAYLOADS[name]), ("gzip", gzip.compress(PAYLOADS[name]))):
        headers = {**tenant.writes, "Content-Type": "application/json"}
        headers |= {"Content-Encoding": encoding} if encoding else {}
        response = requests.post(f"{live.url}{INGEST}", body, headers=headers, timeout=60)
        assert response.status_code in (400, 413, 422)
        assert CANARY not in response.text
        assert CANARY not in str(response.headers)


@pytest.mark.parametrize("name", sampled(SECOND, 2))
def test_a_canary_in_a_field_of_the_second_version_is_kept_nowhere(
    live: LiveService, tenant: Tenant, name: str
) -> None:
    """In a batch, in lines of each kind and in a table, beside calls that are accepted."""
    fields = SECOND[name]
    batch = {"records": [record(), record(**fields)]}
    refused = requests.post(f"{live.url}{INGEST_V2}", json=batch, headers=tenant.writes, timeout=60)
    assert refused.status_code == 422
    lines = [
        (record(), record(**fields)),
        (openai_line(), openai_line(**fields)),
        ({"response": openai_line()}, {"response": openai_line(), **fields}),
    ]
    files = ["".join(f"{json.dumps(line)}\n" for line in (good, good, bad)) for good, bad in lines]
    names = [*record(), "code_executions", "prefix_hashes", "billing"]
    cells = [*map(str, record().values()), *[SENTENCE] * 3]
    good = [*map(str, record().values()), "", "", ""]
    files.append("\n".join(",".join(row) for row in (names, good, good, cells)))
    person = add_person(live.sessions, len(files))
    answers = [upload(live.url, person, file.encode()) for file in files]
    assert {answer.status_code for answer in answers} <= {201, 422}
    for answer in (refused, *answers):
        assert CANARY not in answer.text + str(answer.headers)


@pytest.mark.parametrize("name", sampled(adapters(), 8))
def test_a_canary_in_an_export_is_kept_nowhere(live: LiveService, name: str) -> None:
    """The export is refused as it is; what `scrub` writes is accepted, audited and has none."""
    person, raw = add_person(live.sessions, 1), with_canary(name, SENTENCE)
    refused = upload(live.url, person, raw)
    assert refused.status_code == 422
    scrubbed = b"".join(Scrubber().read(BytesIO(raw)))
    accepted = upload(live.url, person, scrubbed)
    assert accepted.status_code == 201, accepted.text
    report = detectors.audit(BytesIO(scrubbed), keep_calls=False)
    assert report.audit.records
    for written in (refused.text, accepted.text, scrubbed.decode(), report.to_json().decode()):
        assert CANARY not in written


def test_a_canary_in_a_header_an_address_or_a_token_is_kept_nowhere(
    live: LiveService, tenant: Tenant
) -> None:
    odd_headers = {
        "Idempotency-Key": f"{CANARY}\xe9",
        "X-Request-Id": f"{CANARY} {CANARY}",
        "X-Forwarded-For": CANARY,
        "User-Agent": CANARY,
        "Referer": CANARY,
        "Content-Type": f"text/{CANARY}",
        "Content-Encoding": CANARY,
    }
    for name, value in odd_headers.items():
        headers = {**tenant.writes, "Content-Type": "application/json", name: value}
        response = requests.post(f"{live.url}{INGEST}", b"{}", headers=headers, timeout=60)
        assert response.status_code in (400, 415, 422), name
        assert CANARY not in response.text + str(response.headers), name
    secret = {"Authorization": f"Bearer {CANARY}"}
    assert requests.post(f"{live.url}{INGEST}", headers=secret, timeout=60).status_code == 401
    for path in (f"/r/{CANARY}", f"/api/v1/{CANARY}", f"/{CANARY}", f"/?q={quote(SENTENCE)}"):
        response = requests.get(f"{live.url}{path}", timeout=60)
        assert CANARY not in response.text + str(response.headers), path


MALFORMED = (
    f"GET /r/{CANARY} HTTP/9\r\n\r\n",
    f"{CANARY}\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\n{CANARY} bad\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nX: \0{CANARY}\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nExpect: {CANARY}\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: {CANARY}\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {CANARY}\r\n\r\n",
    f"GET /{CANARY * 2000} HTTP/1.1\r\nHost: x\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\nX: {CANARY * 2000}\r\n\r\n",
    f"POST {INGEST} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{CANARY}\r\n\r\n",
    f"POST {INGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx{CANARY} more\r\n\r\n",
)


@each_case("index", range(len(MALFORMED)))
def test_a_canary_in_what_is_no_proper_http_is_not_repeated(live: LiveService, index: int) -> None:
    answer = _send_raw(live, MALFORMED[index].encode("latin-1"))
    assert answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 501")
    assert CANARY.encode() not in answer


def test_a_badly_chunked_body_of_a_known_key_is_a_bad_request(
    live: LiveService, tenant: Tenant
) -> None:
    head = f"POST {INGEST} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.key}\r\n"
    rest = f"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{CANARY}\r\n"
    answer = _send_raw(live, (head + rest).encode())
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"bad_request"' in answer
    assert CANARY.encode() not in answer


def _send_raw(live: LiveService, request: bytes) -> bytes:
    """All that comes back until the server closes or falls silent."""
    parts = urlsplit(live.url)
    answer = b""
    with socket.create_connection((str(parts.hostname), parts.port), timeout=1) as connection:
        connection.sendall(request)
        with suppress(TimeoutError, ConnectionResetError):
            while received := connection.recv(65536):
                answer += received
    return answer


def test_the_search_for_traces_finds_what_is_kept(
    live: LiveService, tenant: Tenant, redis_url: str
) -> None:
    accepted = {"records": [record(tag="KEPTx7Qp")]}
    response = requests.post(
        f"{live.url}{INGEST}", json=accepted, headers=tenant.writes, timeout=60
    )
    blob = live.blobs / "raw" / f"{response.json()['audit_id']}.jsonl"
    # A label that the contract allows is in the stored records, and nowhere else.
    assert traces_of(live, redis_url, "KEPTx7Qp") == [str(blob)]


def test_a_value_that_a_later_key_replaces_is_not_stored(live: LiveService, redis_url: str) -> None:
    """The last of duplicate keys counts, and no other is kept."""
    text = json.dumps(openai_line(tag="last"))
    twice = text.replace('"tag"', f'"tag": "{CANARY}", "tag"')
    response = upload(live.url, add_person(live.sessions, 1), twice.encode())
    assert response.status_code == 201
    assert traces_of(live, redis_url, CANARY) == []
