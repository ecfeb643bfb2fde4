"""How fast queued batches are audited, and how soon a single one is, on the whole service.

    python -m benchmarks.drain [--batches N] [--singles N]

Everything runs on this machine: embedded servers, gunicorn with 2 processes, 2 workers and the
sweeper, which use the same processors. The batches of 50 records are accepted while the workers are
stopped. The drain rate counts from the first finished audit to the last, so it leaves out the start
of the workers. A single batch is sent when nothing is queued, and its latency counts from its 201
to its report. The second account's batch arrives behind the first account's queue. No account gets
a mail per report, because sending mail is other work.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

from benchmarks.ingest import (
    CLIENTS,
    SETTINGS,
    Client,
    Measured,
    make_batch,
    stop_workers,
    wait_for_report,
)
from service.cli.account import create_account, mint_ingest_key
from service.operations.local.stack import Stack

RECORDS: Final = 50
DRAIN_SECONDS: Final = 1_800.0
PAUSE_SECONDS: Final = 0.3
RATE_BAR, LATENCY_BAR = 60.0, 150.0


def new_key(engine: Engine, email: str) -> str:
    with Session(engine) as session:
        account = create_account(session, email, "team")
        account.report_mails = "none"
        session.flush()
        key = mint_ingest_key(session, account)
        session.commit()
    return key


def queue(port: int, key: str, batches: int) -> None:
    bodies = [make_batch(RECORDS, seed) for seed in range(8)]
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
    keys = (new_key(engine, "busy@example.com"), new_key(engine, "other@example.com"))
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


def print_table(results: list[Measured]) -> None:
    table = Table(title="Draining the queue")
    for heading in ("what", "beside it", "measured", "bar", "met"):
        table.add_column(heading)
    for one in results:
        table.add_row(one.what, one.beside, one.value, one.bar, "yes" if one.is_met else "no")
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batches", type=int, default=1_000, help="batches to queue")
    parser.add_argument("--singles", type=int, default=20, help="single batches to wait for")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tallystick-drain-"))
    folder.chmod(0o711)  # PostgreSQL runs as another user where this runs as root
    try:
        with Stack(folder / "var", None, SETTINGS) as stack:
            print_table(measure(stack, arguments))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
