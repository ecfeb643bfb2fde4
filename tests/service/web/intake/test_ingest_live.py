"""Ingest through gunicorn: what only real sockets, processes and concurrency can show."""

import gzip
import http.client
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import requests

from detectors.contract import MAX_BATCH_BYTES, MAX_BATCH_RECORDS
from tests.service.support.hostile import hostile_bodies
from tests.service.support.live import LiveService
from tests.service.support.scenes import INGEST, Tenant, batch
from tests.worker.support.promises import Note, at_a_quarter, in_turn

JSON = {"Content-Type": "application/json"}


def _post(live: LiveService, tenant: Tenant, body: bytes, **headers: str) -> requests.Response:
    return requests.post(
        f"{live.url}{INGEST}", body, headers={**tenant.writes, **JSON, **headers}, timeout=60
    )


@pytest.mark.stress
def test_fifty_senders_of_large_bodies_take_no_more_memory_than_the_setting(
    live: LiveService, note: Note
) -> None:
    """By default, `test_large_bodies.py` shows when a body gets memory and when it is refused."""
    tenants = [live.add_tenant() for _ in range(50)]
    body = b" " * 40_000_000 + json.dumps(batch(5)).encode()
    processes = psutil.Process(live.process.pid).children(recursive=True)
    before = [(process, _reset_peak(process)) for process in processes]
    with ThreadPoolExecutor(len(tenants)) as pool:
        responses = list(pool.map(lambda tenant: _post(live, tenant, body), tenants))
    grown = [_megabytes(process, "VmHWM") - size for process, size in before]
    statuses = Counter(response.status_code for response in responses)
    refused = [response for response in responses if response.status_code == 503]
    assert all("Retry-After" in response.headers for response in refused), statuses
    note(f"36 50 bodies of 40 MB at once: {dict(statuses)}", 50, 50 - statuses[201] - statuses[503])
    peak = round(max(grown))
    note(f"36 50 bodies of 40 MB at once: {peak} MB a process", len(grown), int(peak > 200 + 150))
    assert statuses[201] > 0


def _reset_peak(process: psutil.Process) -> float:
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return _megabytes(process, "VmRSS")


def _megabytes(process: psutil.Process, field: str) -> float:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1_000


def _longest_record() -> dict[str, Any]:
    """Every label has its greatest length, in characters that take most bytes."""
    labels = dict.fromkeys(("model", "endpoint", "request_id", "tag"), "\U0001f600" * 200)
    record: dict[str, Any] = batch(1)["records"][0]
    return record | labels | {"provider": "p" * 64, "prefix_hash": "f" * 64}


def test_a_batch_has_room_for_the_longest_records_of_the_contract() -> None:
    size = len(json.dumps(_longest_record())) + len(", ")
    assert 0.9 * MAX_BATCH_BYTES < size * MAX_BATCH_RECORDS < MAX_BATCH_BYTES


@pytest.mark.stress
def test_the_longest_records_of_the_contract_are_a_batch(live: LiveService) -> None:
    """By default, the test above has their length."""
    body = json.dumps({"records": [_longest_record()] * MAX_BATCH_RECORDS}).encode()
    assert 0.9 * MAX_BATCH_BYTES < len(body) < MAX_BATCH_BYTES
    assert _post(live, live.add_tenant(), body).status_code == 201


def test_a_chunked_body_is_accepted_up_to_the_limit(live: LiveService) -> None:
    tenant, body = live.add_tenant(), json.dumps(batch(500)).encode()
    assert _chunked(live, tenant, [body[:1000], body[1000:]]) == 201
    assert _chunked(live, tenant, [b" " * 1024 * 1024] * (MAX_BATCH_BYTES // 1024**2 + 1)) == 413


def _chunked(live: LiveService, tenant: Tenant, chunks: list[bytes]) -> int:
    connection = http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=60)
    headers = {**tenant.writes, **JSON, "Transfer-Encoding": "chunked"}
    connection.request("POST", INGEST, iter(chunks), headers, encode_chunked=True)
    status = connection.getresponse().status
    connection.close()
    return status


@at_a_quarter
def test_hostile_bodies_break_no_worker(live: LiveService, share: float) -> None:
    """A quarter is every second body once, packed or not."""
    tenant = live.add_tenant()
    for number, body in enumerate(hostile_bodies()[:: 1 if share == 1 else 2]):
        packed = gzip.compress(body), {"Content-Encoding": "gzip"}
        for sent, headers in in_turn(((body, {}), packed), number, share):
            assert _post(live, tenant, sent, **headers).status_code in (400, 422), body[:100]
    assert _post(live, tenant, json.dumps(batch()).encode()).status_code == 201


def test_a_keys_surrounding_spaces_are_no_part_of_it(live: LiveService) -> None:
    tenant, body = live.add_tenant(), json.dumps(batch()).encode()
    statuses = [
        _post(live, tenant, body, **{"Idempotency-Key": key}).status_code for key in ("k", "k  ")
    ]
    assert statuses == [201, 200]
