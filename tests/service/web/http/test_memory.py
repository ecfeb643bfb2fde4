"""Promise 55: a web process remembers nothing that callers choose, at any of its doors."""

import json
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, Final

import psutil
import pytest
import requests

from service.models.calls.spend import KEYS
from tests.service.otlp.requests import (
    CHAT,
    JSON,
    PROTOBUF,
    as_json,
    as_protobuf,
    attribute,
    document,
    span,
)
from tests.service.support.live import (
    ONE_PROCESS,
    LiveService,
    start_live_service,
    stop_live_service,
)
from tests.service.support.scenes import AUDITS, INGEST, INGEST_V2, record
from tests.service.support.uploads import add_person, log_file
from tests.worker.support.promises import Note, at_a_fiftieth, scaled

REQUESTS: Final = 10_000
MOST_MEGABYTES: Final = 30
MOST_OF_FEW: Final = 15
NAMES: Final = 300  # of attributes in a request of spans, at full count
LONG: Final = "n" * 1_000
LONGER: Final = 4 * LONG
LIMITS: Final = {"queued_audits_free": 1_000_000}

Door = Callable[[str], requests.Response]


@pytest.fixture
def service(
    database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    folder = tmp_path_factory.mktemp("memory")
    service = start_live_service(database_url, redis_url, folder, **ONE_PROCESS, **LIMITS)
    yield service
    stop_live_service(service)


@at_a_fiftieth
def test_names_that_callers_make_up_leave_no_trace_in_memory(
    service: LiveService, share: float, note: Note
) -> None:
    count = scaled(REQUESTS, share)
    doors = _doors(service, count, names=NAMES if share == 1 else NAMES // 10)
    statuses: dict[str, set[int]] = {name: set() for name in doors}

    def knock(numbers: range) -> None:
        for number in numbers:
            name = list(doors)[number % len(doors)]
            statuses[name].add(doors[name](f"{number:06d}").status_code)

    knock(range(count // 4))
    before = _megabytes(service)
    knock(range(count // 4, count + count // 4))
    grown = _megabytes(service) - before
    assert statuses == {name: {EXPECTED.get(name, 200)} for name in doors}
    assert grown <= (MOST_MEGABYTES if share == 1 else MOST_OF_FEW)
    note("55 memory does not remember callers", count, 0)


def _megabytes(service: LiveService) -> float:
    (worker,) = psutil.Process(service.process.pid).children()
    return float(worker.memory_info().rss) / 1_000_000


EXPECTED: Final = {
    **dict.fromkeys(("ingest", "ingest, version 2", "upload", "CSV"), 201),
    **dict.fromkeys(
        ("unknown fields", "parts", "a file of other fields", "columns", "filters"), 422
    ),
    "paths": 404,
}


def _doors(service: LiveService, count: int, names: int) -> dict[str, Door]:
    """Return requests whose every field has a name or a value that is given to it."""
    tenant = service.add_tenant()
    person = add_person(service.sessions, credits=count)
    session = requests.Session()
    orders = [*permutations(KEYS, 1), *permutations(KEYS, 2), *permutations(KEYS, 3)]

    def post(path: str, own: str, **arguments: Any) -> requests.Response:
        headers = {**tenant.writes, "User-Agent": f"{own}-{LONG}", "Idempotency-Key": own}
        headers |= arguments.pop("headers", {})
        url = f"{service.url}{path}"
        return session.post(url, headers=headers, timeout=60, **arguments)

    def get(path: str, own: str, **parameters: str) -> requests.Response:
        headers = {**tenant.reads, "If-None-Match": f'"{own}"', "X-Request-Id": own, own: LONG}
        url = f"{service.url}{path}"
        return session.get(url, headers=headers, params=parameters, timeout=60)

    def spans(kind: str) -> Door:
        encode = {PROTOBUF: as_protobuf, JSON: as_json}[kind]

        def send(own: str) -> requests.Response:
            content = {"key": "input.value", "value": {"arrayValue": {"values": []}}}
            named = [attribute(f"{own}-{number}-{LONGER}", 1) for number in range(names)]
            each = span(_labels(own))
            each["attributes"] += [*named, content]
            each["events"] = [{"name": own, "attributes": named[:1]}]
            body = encode(document(each, scope=own + LONG, version=own + LONG, **{own: LONG}))
            headers = {"Content-Type": kind} | ({"X-Tag-Attribute": own} if kind == JSON else {})
            return post("/otlp/v1/traces", own, data=body, headers=headers)

        return send

    def upload(own: str, content: bytes, **parts: bytes) -> requests.Response:
        headers = {**person.headers, "Idempotency-Key": own}
        files: dict[str, Any] = {"file": (f"{own}{LONG}", content), **parts}
        return session.post(f"{service.url}{AUDITS}", headers=headers, files=files, timeout=60)

    def batch(own: str, **more: Any) -> dict[str, Any]:
        texts = {name: f"{name}-{own}" for name in ("provider", "model", "tag")}
        return {"records": [record(**texts, **more)]}

    return {
        "ingest": lambda own: post(INGEST, own, json=batch(own)),
        "ingest, version 2": lambda own: post(
            INGEST_V2, own, json=batch(own, environment=own, session_id=own, request_id=own)
        ),
        "unknown fields": lambda own: post(INGEST_V2, own, json=batch(own, **{own + LONG: 1})),
        "spans in protobuf": spans(PROTOBUF),
        "spans in JSON": spans(JSON),
        "upload": lambda own: upload(own, log_file(model=own, id=own)),
        "parts": lambda own: upload(own, log_file(), **{own + LONG: b""}),
        "a file of other fields": lambda own: upload(own, json.dumps({own + LONG: own}).encode()),
        "CSV": lambda own: upload(
            own,
            f"ts,provider,model,prompt_tokens,completion_tokens\n"
            f"2026-01-01T00:00:00Z,p-{own},m-{own},1,2\n".encode(),
        ),
        "columns": lambda own: upload(own, f"{own}{LONG},b\n1,2\n".encode()),
        "spend": lambda own: get(
            "/api/v1/spend", own, group_by=",".join(orders[int(own) % len(orders)])
        ),
        "findings": lambda own: get("/api/v1/findings", own, route=own, model=own, assignee=own),
        "audits": lambda own: get("/api/v1/audits", own, since=f"20{own[-2:]}-01-01"),
        "filters": lambda own: get("/api/v1/audits", own, cursor=own + LONG),
        "unknown parameters": lambda own: get("/docs", own, **{own: LONG}),
        "pages": lambda own: session.get(
            f"{service.url}/spend",
            headers=person.headers,
            params={"route": own, "model": own, "provider": own, own: own},
            timeout=60,
        ),
        "imports": lambda own: session.get(
            f"{service.url}/imports",
            headers=person.headers,
            params={"day": "2026-01-01", "client": own + LONG, "environment": own},
            timeout=60,
        ),
        "paths": lambda own: get(f"/{own}/{LONG}", own),
    }


def _labels(own: str) -> dict[str, Any]:
    """Return the attributes of a call whose labels are all its own."""
    return {
        **CHAT,
        "gen_ai.provider.name": f"provider-{own}-{LONG}",
        "gen_ai.response.model": f"model-{own}",
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.conversation.id": own,
        "gen_ai.response.id": own,
        "service.name": f"{own}{LONG}",
    }
