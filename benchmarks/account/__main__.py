"""The account benchmark: millions of calls of 43,200 one-minute batches, 30 days.

    python -m benchmarks.account [--calls 1000000 10000000] [--imports N] [--requests N]

The batches are published by the functions that publish audits, without auditing each. Then a
process compacts the account's files, another audits the account, and DuckDB reads and sums the same
files: the columns that `benchmarks/audit.py` sums, all columns that spend depends on, and all
columns. A worker is ready before it gets a job, so times begin when a process has imported what it
needs; that goes for DuckDB, too. Memory is the peak. An account that may not fit into the machine's
memory and its swap is audited on Spark only. The dashboard is measured as `benchmarks/pages.py`
measures pages.
"""

import argparse
import os
from collections.abc import Sequence
from http.client import OK

from psutil import swap_memory, virtual_memory
from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

from benchmarks.account.measuring import (
    COMPACT,
    DUCKDB,
    DUCKDB_ALL,
    DUCKDB_SPEND,
    audit_account,
    environment_of,
    local_files,
    measure_publishing,
    run,
)
from benchmarks.account.store import count_files, fill_store
from benchmarks.intake.ingest import stop_workers
from benchmarks.pages import SETTINGS, Browser, cookie_of, measure, new_session
from benchmarks.running import Measured, Run, print_table, running_service
from service.cli.account import create_account
from service.core.blobs import BlobStore
from service.operations.local.stack import Stack

IMPORTS = 43_200
_AUDIT, _ON_SPARK = "audit of the account", "audit of the account on Spark"
_CALL_BYTES = 400  # of an audit in memory, with every optional field
MOST_TIMES, MOST_MB, MOST_PCT, MOST_MS = 6.0, 4_000.0, 25.0, 50.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--imports", type=int, default=IMPORTS)
    parser.add_argument("--requests", type=int, default=40, help="requests of the dashboard")
    parser.add_argument("--batches", type=int, default=400, help="batches to audit and publish")
    parser.add_argument("--spark", default="", help="audit on Spark at this master too: local[2]")
    arguments = parser.parse_args()
    for calls in arguments.calls:
        with running_service("account", SETTINGS) as stack:
            measure_size(Console(width=120), stack, calls, arguments)


def measure_size(console: Console, stack: Stack, calls: int, arguments: argparse.Namespace) -> None:
    """Fill the store with so many calls, and print what was measured."""
    fits = calls * _CALL_BYTES <= virtual_memory().available + swap_memory().free
    if not fits and not arguments.spark:
        raise SystemExit(f"an audit of {calls:,} calls may not fit into memory: use --spark")
    stop_workers(stack)
    stack.supervisor.stop("sweeper")
    engine = create_engine(stack.config.migration_database_url)  # only the owner may VACUUM
    with Session(engine) as session:
        account = create_account(session, "benchmark@example.com", "team")
        session.commit()
        account_id = account.id
    blobs = BlobStore.from_url(stack.config.storage_url)
    imports = arguments.imports
    stored = fill_store(engine, blobs, account_id, calls=calls, imports=imports)
    before = count_files(engine, account_id)
    env = environment_of(stack, ACCOUNT_POLARS_CALLS=str(10 * stored))
    compacted = run(COMPACT, account_id, env=env)
    after = count_files(engine, account_id)
    console.print(f"{stored:,} calls of {imports:,} imports, {os.cpu_count()} cores")
    console.print(f"files: {_files(before)} before compaction, {_files(after)} after")
    _print_runs(console, {"compaction": compacted})
    runs = measure_audits(stack, engine, account_id, env, arguments.spark, fits=fits)
    _print_runs(console, runs)
    results = list(_compare(runs))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    results.append(measure_dashboard(stack, engine, account_id, arguments.requests))
    added = measure_publishing(stack, engine, account_id, arguments.batches)
    name, bar = "publishing to the store, on top of a batch's audit", f"<= {MOST_PCT:.0f}%"
    results.append(Measured(name, "", f"{added:.0f}%", bar, added <= MOST_PCT))
    print_table(f"An account with {stored:,} calls", results)
    engine.dispose()


def measure_audits(
    stack: Stack, engine: Engine, account_id: str, env: dict[str, str], spark: str, *, fits: bool
) -> dict[str, Run]:
    """Audit the account in memory if it fits, and on Spark at this master if there is one.

    DuckDB sums the same files. The best of two runs counts; on Spark there is one.
    """
    files = local_files(stack, engine, account_id)
    audits = [audit_account(engine, account_id, env) for _ in range(2 * fits)]
    runs = {_AUDIT: min((each for each, _ in audits), key=_seconds)} if fits else {}
    if spark:
        more = {"ACCOUNT_POLARS_CALLS": "1", "SPARK_MASTER": spark}
        runs[_ON_SPARK], audit = audit_account(engine, account_id, env | more)
        for _, other in audits:
            assert (other.total_spend_usd, other.records) == (audit.total_spend_usd, audit.records)
    for name, command in (
        ("DuckDB, labels and counts", DUCKDB),
        ("DuckDB, all that spend depends on", DUCKDB_SPEND),
        ("DuckDB, all columns", DUCKDB_ALL),
    ):
        runs[name] = min((run(command, *files, env=env) for _ in range(2)), key=_seconds)
    return runs


def _seconds(measured: Run) -> float:
    return measured.seconds


def _compare(runs: dict[str, Run]) -> Sequence[Measured]:
    name = _AUDIT if _AUDIT in runs else _ON_SPARK
    audit, results = runs[name], []
    for beside in [each for each in runs if each.startswith("DuckDB")]:
        times = audit.seconds / runs[beside].seconds
        bar = f"<= {MOST_TIMES:.0f} x"
        results.append(Measured(name, beside, f"{times:.1f} x", bar, times <= MOST_TIMES))
    memory = f"{audit.peak_mb:,.0f} MB"
    is_met = audit.peak_mb <= MOST_MB
    bar = f"<= {MOST_MB:,.0f} MB"
    return [*results, Measured(name, "memory", memory, bar, is_met)]


def measure_dashboard(stack: Stack, engine: Engine, account_id: str, requests: int) -> Measured:
    """Measure the dashboard of the account's owner."""
    with Session(engine) as session:
        cookie = cookie_of(stack, new_session(session, account_id))
    browser = Browser(stack.port, cookie)
    status, _, body = browser.get("/dashboard")
    if status != OK or b"route-" not in body:
        raise SystemExit(f"the dashboard has status {status}, or shows no routes")
    measured = measure(browser, "/dashboard", requests)
    assert measured is not None, "the dashboard is a page"
    milliseconds = measured.milliseconds
    bar, is_met = f"<= {MOST_MS:.0f} ms", milliseconds <= MOST_MS
    return Measured("dashboard, p50", "", f"{milliseconds:.1f} ms", bar, is_met)


def _print_runs(console: Console, runs: dict[str, Run]) -> None:
    table = Table("program", "seconds", "processor seconds", "peak MB")
    for name, measured in runs.items():
        times = (f"{each:.2f}" for each in (measured.seconds, measured.processor_seconds))
        table.add_row(name, *times, f"{measured.peak_mb:,.0f}")
    console.print(table)


def _files(counted: tuple[int, int]) -> str:
    files, size = counted
    return f"{files:,} of {size / 1e6:,.0f} MB"


if __name__ == "__main__":
    main()
