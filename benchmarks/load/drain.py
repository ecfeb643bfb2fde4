"""How fast queued batches are audited, and how soon a single one is, on the whole service.

    python -m benchmarks.load.drain [--batches N] [--singles N]

Everything runs on this machine: embedded servers, gunicorn with 2 processes, 2 workers and the
sweeper, which use the same processors. The batches of 50 records are accepted while the workers are
stopped. The drain rate counts from the first finished audit to the last, so it leaves out the start
of the workers. A single batch is sent when nothing is queued, and its latency counts from its 201
to its report. The second account's batch arrives behind the first account's queue. No account gets
a mail per report, because sending mail is other work.
"""

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sqlalchemy import Engine, create_engine, text

from benchmarks.intake.ingest import (
    CLIENTS,
    SETTINGS,
    Client,
    make_batch,
    new_key,
    stop_workers,
    wait_for_report,
)
from benchmarks.running import Measured, print_table, running_service
from service.operations.local.stack import Stack

RECORDS: Final = 50
DRAIN_SECONDS: Final = 1_800.0
PAUSE_SECONDS: Final = 0.3
RATE_BAR, LATENCY_BAR = 60.0, 150.0


def queue(port: int, key: str, batches: int, records: int = RECORDS) -> None:
    bodies = [make_batch(records, seed) for seed in range(8)]
    numbers = iter(range(batches))

    def send_some(client: Client) -> None:
        for number in numbers:  # the clients share them
            client.post(bodies[number % len(bodies)])

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(send_some, [Client(port, key) for _ in range(CLIENTS)]))


def start_workers(stack: Stack) -> None:
    for program in stack._programs:
        if program.name.startswith("worker"):
            stack.supervisor.start(program)


def wait_drained(engine: Engine) -> None:
    query = text("SELECT count(*) FROM audits WHERE status IN ('queued', 'processing')")
    ends_at = time.monotonic() + DRAIN_SECONDS
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while left := connection.scalar(query):
            if time.monotonic() > ends_at:
                raise SystemExit(f"{left} audits are not done")
            time.sleep(0.1)


def wait_until_draining(engine: Engine) -> None:
    """Return once the workers have finished some audits of the queue."""
    done = text("SELECT count(*) FROM audits WHERE status = 'done'")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        before = connection.scalar(done) or 0
        while (connection.scalar(done) or 0) <= before:
            time.sleep(0.05)


def measure_drain(stack: Stack, engine: Engine, key: str, batches: int) -> float:
    """Return the audits per second of two workers with a queue of batches."""
    stop_workers(stack)
    queue(stack.port, key, batches)
    start_workers(stack)
    wait_drained(engine)
    query = text(
        "SELECT extract(epoch FROM max(finished_at) - min(finished_at)) FROM ("
        "SELECT finished_at FROM audits ORDER BY created_at DESC LIMIT :batches) AS drained"
    )
    with engine.connect() as connection:
        return (batches - 1) / float(connection.scalar(query, {"batches": batches}))


def measure_single(port: int, key: str, engine: Engine, singles: int) -> float:
    """Return the median milliseconds from a small batch's 201 to its report, when idle."""
    client, durations = Client(port, key), []
    for seed in range(singles):
        time.sleep(PAUSE_SECONDS)
        audit_id = client.post(make_batch(RECORDS, seed))
        began = time.perf_counter()
        wait_for_report(engine, audit_id)
        durations.append((time.perf_counter() - began) * 1_000)
    return statistics.median(durations)


def measure_other(stack: Stack, engine: Engine, keys: tuple[str, str], batches: int) -> float:
    """Return the seconds that one batch waits behind another account's queue."""
    stop_workers(stack)
    queue(stack.port, keys[0], batches)
    client = Client(stack.port, keys[1])
    start_workers(stack)
    wait_until_draining(engine)
    audit_id = client.post(make_batch(1, 0))
    began = time.perf_counter()
    wait_for_report(engine, audit_id)
    seconds = time.perf_counter() - began
    wait_drained(engine)
    return seconds


def measure(stack: Stack, arguments: argparse.Namespace) -> list[Measured]:
    engine = create_engine(stack.config.database_url)
    emails = ("busy@example.com", "other@example.com")
    keys = (new_key(engine, emails[0], "none"), new_key(engine, emails[1], "none"))
    milliseconds = measure_single(stack.port, keys[0], engine, arguments.singles)
    rate = measure_drain(stack, engine, keys[0], arguments.batches)
    other = measure_other(stack, engine, keys, min(arguments.batches, 400))
    engine.dispose()
    return [
        Measured(
            f"batch of {RECORDS}: accepted to report, p50",
            "idle workers",
            f"{milliseconds:.0f} ms",
            f"<= {LATENCY_BAR:.0f} ms",
            milliseconds <= LATENCY_BAR,
        ),
        Measured(
            f"{arguments.batches:,} queued batches of {RECORDS}: drained",
            "2 workers",
            f"{rate:.1f}/s",
            f">= {RATE_BAR:.0f}/s",
            rate >= RATE_BAR,
        ),
        Measured(
            "batch of 1 behind another account's queue",
            "2 workers, draining",
            f"{other:.2f} s",
            "<= 1 s",
            other <= 1,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batches", type=int, default=1_000, help="batches to queue")
    parser.add_argument("--singles", type=int, default=20, help="single batches to wait for")
    arguments = parser.parse_args()
    with running_service("drain", SETTINGS) as stack:
        print_table("Draining the queue", measure(stack, arguments))


if __name__ == "__main__":
    main()
