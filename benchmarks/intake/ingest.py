"""The ingest benchmark, on the whole service as `tallystick up` runs it.

    python -m benchmarks.intake.ingest [--batches N] [--requests N] [--audits N]

Everything runs on this machine: embedded servers, gunicorn with 2 processes, 2 workers, the
sweeper, and the clients, which use the same processors. The limits per key and address are raised,
because the benchmark would exceed them. A batch counts when its 201 arrives, so its blob and its
row are on disk. Throughput and latency are measured twice: with the workers auditing incoming
batches, and on another service with the workers stopped, because PostgreSQL is busy for a while
with what audits leave.
"""

import argparse
import http.client
import json
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

from benchmarks.running import Measured, print_table, running_service
from service.cli.account import create_account, mint_ingest_key
from service.operations.local.stack import Stack

SETTINGS: Final = {
    "INGEST_KEY_LIMIT_PER_MINUTE": "1000000",
}
BIG_BATCH, SMALL_BATCH = 5_000, 500
CLIENTS: Final = 6
# The limits: seconds from the 201 to the report by records, milliseconds, batches per second.
REPORT_SECONDS: Final = {SMALL_BATCH: 0.25, BIG_BATCH: 1.0}
REQUEST_MS: Final = 5.0
RATES: Final = {"workers auditing": 70.0, "workers stopped": 100.0}
WARM_UP: Final = 10
AUDIT_SECONDS: Final = 60.0
MODELS: Final = ("gpt-5.4", "gpt-5-mini", "gpt-4o", "gpt-4.1-mini")
START: Final = datetime(2026, 10, 1, tzinfo=UTC)


class Client:
    """A connection that stays open, as a collector keeps it."""

    def __init__(self, port: int, key: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(self, body: bytes) -> str:
        """Send a batch; return its audit's ID."""
        self._connection.request("POST", "/api/v1/ingest", body, self._headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != http.client.CREATED:
            raise SystemExit(f"a batch was answered with {response.status}: {answer.decode()}")
        return str(json.loads(answer)["audit_id"])


def make_batch(records: int, seed: int) -> bytes:
    """Return calls over two weeks, with most of the optional fields, about 250 bytes each."""
    randomness = random.Random(seed)
    calls = []
    for number in range(records):
        prompt = randomness.randint(200, 9_000)
        calls.append(
            {
                "ts": (START + timedelta(seconds=randomness.random() * 1_209_600)).isoformat(),
                "provider": "openai",
                "model": randomness.choice(MODELS),
                "prompt_tokens": prompt,
                "completion_tokens": randomness.randint(5, 900),
                "cached_tokens": randomness.choice((0, 0, prompt // 2)),
                "latency_ms": randomness.randint(200, 9_000),
                "request_id": f"{seed:04d}-{number:06d}",
                "tag": f"team-{randomness.randint(0, 20)}",
                "declared_max_tokens": 1_024,
            }
        )
    return json.dumps({"records": calls}).encode()


def measure_throughput(port: int, key: str, batches: int) -> float:
    """Return the accepted batches per second of several clients."""
    bodies = [make_batch(BIG_BATCH, seed) for seed in range(8)]
    numbers = iter(range(batches))

    def send_some(client: Client) -> None:
        for number in numbers:  # the clients share them
            client.post(bodies[number % len(bodies)])

    clients = [Client(port, key) for _ in range(CLIENTS)]
    for client in clients:
        client.post(bodies[0])
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(send_some, clients))
    return batches / (time.perf_counter() - began)


def measure_latency(port: int, key: str, requests: int) -> float:
    """Return the median milliseconds until a small batch is accepted."""
    client, body = Client(port, key), make_batch(SMALL_BATCH, 1)
    durations = []
    for _ in range(requests + WARM_UP):
        began = time.perf_counter()
        client.post(body)
        durations.append((time.perf_counter() - began) * 1_000)
    return statistics.median(durations[WARM_UP:])


def measure_audits(port: int, key: str, engine: Engine, records: int, audits: int) -> float:
    """Return the median seconds from a batch's 201 to its report, one batch at a time."""
    client, durations = Client(port, key), []
    for seed in range(audits):
        body = make_batch(records, seed)
        audit_id = client.post(body)
        began = time.perf_counter()
        wait_for_report(engine, audit_id)
        durations.append(time.perf_counter() - began)
    return statistics.median(durations)


def wait_for_report(engine: Engine, audit_id: str) -> None:
    query = text("SELECT status FROM audits WHERE id = :id")
    ends_at = time.monotonic() + AUDIT_SECONDS
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while (status := connection.scalar(query, {"id": audit_id})) != "done":
            if status == "failed" or time.monotonic() > ends_at:
                raise SystemExit(f"an audit is {status} and not done")
            time.sleep(0.005)


def measure_working(stack: Stack, arguments: argparse.Namespace) -> list[Measured]:
    engine = create_engine(stack.config.database_url)
    key, results = new_key(engine), []
    for records, limit in REPORT_SECONDS.items():
        seconds = measure_audits(stack.port, key, engine, records, arguments.audits)
        accepted = f"batch of {records:,}: accepted to report, p50"
        bar = f"<= {limit:g} s"
        results.append(
            Measured(accepted, "idle workers", f"{seconds:.2f} s", bar, seconds <= limit)
        )
    engine.dispose()
    return results + measure_requests(stack, key, arguments, "workers auditing")


def measure_stopped(stack: Stack, arguments: argparse.Namespace) -> list[Measured]:
    engine = create_engine(stack.config.database_url)
    key = new_key(engine)
    engine.dispose()
    stop_workers(stack)
    return measure_requests(stack, key, arguments, "workers stopped")


def measure_requests(
    stack: Stack, key: str, arguments: argparse.Namespace, beside: str
) -> list[Measured]:
    milliseconds = measure_latency(stack.port, key, arguments.requests)
    rate = measure_throughput(stack.port, key, arguments.batches)
    return [
        Measured(
            f"batch of {SMALL_BATCH}, 1 client: p50 of the request",
            beside,
            f"{milliseconds:.1f} ms",
            f"<= {REQUEST_MS:g} ms",
            milliseconds <= REQUEST_MS,
        ),
        Measured(
            f"batches of {BIG_BATCH:,}, {CLIENTS} clients: accepted",
            beside,
            f"{rate:.1f}/s ({rate * BIG_BATCH:,.0f} records/s)",
            f">= {RATES[beside]:g}/s",
            rate >= RATES[beside],
        ),
    ]


def stop_workers(stack: Stack) -> None:
    for number in range(1, stack.config.worker_processes + 1):
        stack.supervisor.stop(f"worker-{number}")


def new_key(engine: Engine, email: str = "benchmark@example.com", mails: str = "each") -> str:
    with Session(engine) as session:
        account = create_account(session, email, "team")
        account.report_mails = mails
        session.flush()
        key = mint_ingest_key(session, account)
        session.commit()
    return key


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batches", type=int, default=200, help="big batches to send")
    parser.add_argument("--requests", type=int, default=200, help="small batches to send")
    parser.add_argument("--audits", type=int, default=15, help="audits to wait for")
    arguments = parser.parse_args()
    with running_service("ingest", SETTINGS) as stack:
        results = measure_working(stack, arguments)
    with running_service("ingest", SETTINGS) as stack:
        results += measure_stopped(stack, arguments)
    print_table("Ingest, durable before the 201", results)


if __name__ == "__main__":
    main()
