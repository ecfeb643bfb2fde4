"""Spans that an exporter got an answer for are in the account once, whatever is killed meanwhile.

Their wrappers come before or after them, and the spans between are late or missing. The smaller
proofs are in tests/service/operations/maintenance/test_span_imports.py.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final

import psutil
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from detectors.report.account.call_files import read_calls
from service.core.blobs import BlobStore
from service.models import SpanBatch
from service.models.base import utc_now
from service.models.imports.span_batches import IMPORT_AGE, request_import
from tests.service.otlp.requests import CHAT, as_protobuf, document, read, records_of, span
from tests.worker.conftest import SHORT, started_system
from tests.worker.support.promises import Note
from tests.worker.support.system import UNLIMITED, System
from tests.worker.support.waiting import kill, wait_until, wait_until_ended

KILLS: Final = 60
CLIENTS: Final = 4
CALLS: Final = 10  # of an agent, whose own span repeats their sums
VICTIMS: Final = ("web", "sweeper", "worker", "database", "web", "sweeper")
_LIVE: Final = "SELECT blob_key FROM call_files WHERE replaced_at IS NULL"
_WAITING: Final = "SELECT 1 FROM span_batches WHERE calls > 0"
_UNFINISHED: Final = "SELECT 1 FROM audits WHERE status IN ('queued', 'processing')"


@pytest.fixture
def system() -> Iterator[System]:
    """A service that gives no audit up, however often its attempts are killed."""
    limits = {"INGEST_KEY_LIMIT_PER_MINUTE": UNLIMITED}
    with started_system(MAX_STARTS="100", **limits, **SHORT) as system:
        yield system


@dataclass
class Exporters:
    """Programs that export agents' spans, each request again until it is accepted."""

    system: System
    # The accepted calls of each agent, by request ID, below that of the agent.
    traces: dict[str, set[str]] = field(default_factory=dict)
    failures: int = 0

    def run(self, done: threading.Event) -> None:
        headers = {"Authorization": f"Bearer {self.system.key}"}
        url = f"{self.system.base_url}/otlp/v1/traces"
        # Within a second, it does not hide an outage by trying again.
        exporter = OTLPSpanExporter(url, headers=headers, timeout=1, compression=Compression.Gzip)
        for number in count():
            if done.is_set():
                break
            *calls, step, agent = _trace_agent()
            half = len(calls) // 2
            parts = [calls[:half], calls[half:]]
            # Late, at once, early, and between the calls; the span between comes last, or never.
            parts.insert((2, 1, 0)[number % 3], [agent])
            for part in (*parts, *([[step]] if number % 2 else [])):
                self._export(exporter, part)
            self.traces[_request_id(agent)] = set(map(_request_id, calls))

    def _export(self, exporter: OTLPSpanExporter, spans: Sequence[ReadableSpan]) -> None:
        ends_at = time.monotonic() + 120
        while exporter.export(spans) is not SpanExportResult.SUCCESS:
            self.failures += 1
            assert time.monotonic() < ends_at
            time.sleep(0.1)


def _trace_agent() -> Sequence[ReadableSpan]:
    """Return the spans of an agent's calls, one around them, and last the agent's, with sums."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("mine")
    with tracer.start_as_current_span("agent") as agent:
        agent.set_attributes({**CHAT, "gen_ai.usage.input_tokens": 1_200 * CALLS})
        with tracer.start_as_current_span("step") as step:
            step.set_attribute("gen_ai.operation.name", "step")
            for _ in range(CALLS):
                with tracer.start_as_current_span("chat") as call:
                    call.set_attributes(CHAT)
    return kept.get_finished_spans()


def _request_id(each: ReadableSpan) -> str:
    assert each.context is not None
    return f"{each.context.trace_id:032x}-{each.context.span_id:016x}"


@pytest.mark.stress
def test_kills_while_exporters_send_lose_and_double_no_span(system: System, note: Note) -> None:
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # each refusal is expected
    exporters, random, done = Exporters(system), Random(45), threading.Event()
    due: set[str] = set()
    with ThreadPoolExecutor(CLIENTS) as pool:
        sending = [pool.submit(exporters.run, done) for _ in range(CLIENTS)]
        try:
            for number in range(KILLS):
                wait_until(system.is_ready, 60)
                due.add(_make_due(system))
                time.sleep(random.uniform(0, 1.2))
                _kill(system, VICTIMS[number % len(VICTIMS)])
        finally:
            done.set()
        for each in sending:
            each.result()
    due.add(_make_due(system))
    found = _find_calls(system)
    wrong = len(due - set(found)) + sum(each > 1 for each in found.values())
    for agent, calls in exporters.traces.items():
        # An agent that was imported before its calls counts in their place.
        counted = calls & set(found)
        wrong += counted != set() if agent in found else counted != calls
    assert exporters.failures
    assert len(exporters.traces) > KILLS // CALLS
    note("45 kills while exporters send lose and double no span", KILLS, wrong)


def _make_due(system: System) -> str:
    """Store a call that has waited long enough for an import; return its request ID."""
    calls = read(as_protobuf(document(span(CHAT))))
    (account_id,) = (row.id for row in _asked(system, "SELECT id FROM accounts"))
    row = {"account_id": account_id, "calls": 1, "size": 100, "lines": calls.lines}
    row |= {"keys": calls.keys, "links": b"", "received_at": utc_now() - 2 * IMPORT_AGE}

    def is_stored() -> bool:
        try:
            with system.engine.begin() as connection:
                connection.execute(insert(SpanBatch).values(row))
        except SQLAlchemyError:
            return False
        return True

    wait_until(is_stored, 30)
    (record,) = records_of(calls)
    return str(record["request_id"])


def _asked(system: System, query: str) -> Sequence[Any]:
    """Return the rows of a query, as soon as a database that was just killed is back."""
    found: list[Sequence[Any]] = []

    def is_answered() -> bool:
        try:
            found.append(system.rows(query))
        except SQLAlchemyError:
            return False
        return True

    wait_until(is_answered, 30)
    return found[-1]


def _kill(system: System, victim: str) -> None:
    if victim == "web":
        system.kill_web()
    elif victim == "database":
        system.servers.crash_postgres()
    else:
        name = f"{victim}-0"
        children = psutil.Process(system.processes[name].pid).children()
        system.kill_process(name)
        for child in children:
            kill(child.pid)
            wait_until_ended(child.pid)
        system.start_process(name)


def _find_calls(system: System) -> Counter[str]:
    """Wait until all is imported and published; count the stored calls by request ID."""
    (account_id,) = (row.id for row in _asked(system, "SELECT id FROM accounts"))
    with Session(system.engine) as session, session.begin():
        request_import(session, account_id)
    for query in (_WAITING, _UNFINISHED):
        wait_until(partial(lambda query: not _asked(system, query), query), 300)
    assert system.statuses().keys() == {"done"}
    blobs = BlobStore.from_url(system.blobs.as_uri())
    found = Counter[str]()
    for row in system.rows(_LIVE):
        with blobs.open(row.blob_key) as file:
            found.update(read_calls(file)["request_id"])
    return found
