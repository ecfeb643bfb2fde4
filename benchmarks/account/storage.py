"""How many bytes an ingest audit takes in PostgreSQL, by table and with indexes.

    python -m benchmarks.account.storage [--batches N]

The batches, with calls of two weeks each, are ingested and audited by the whole service on this
machine. Tables are measured after `VACUUM FULL`: as published, once reports are packed, once call
files are merged and the replaced ones forgotten, and once reports are deleted.
"""

import argparse
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from rich.console import Console
from rich.table import Table
from sqlalchemy import Connection, Engine, create_engine, text

from benchmarks.intake.ingest import SETTINGS, Client, make_batch, new_key
from benchmarks.load.drain import wait_drained
from benchmarks.running import running_service
from service.models.operations.retention import delete_batch_reports, delete_replaced, pack_reports

RECORDS: Final = (50, 500)
_MERGING_SECONDS: Final = 120.0
TABLES: Final = (
    *("audits", "findings", "reports", "idempotency_keys", "mails", "report_links"),
    *("call_imports", "call_files", "daily_spend", "spend_days", "spend_groups"),
)


def measure(engine: Engine, batches: int) -> list[int]:
    """Return the bytes per audit of each table with its indexes."""
    sizes = []
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in TABLES:
            connection.execute(text(f"VACUUM FULL {table}"))
            size = connection.scalar(text(f"SELECT pg_total_relation_size('{table}')"))
            sizes.append(round((size or 0) / batches))
    return sizes


def repeat(engine: Engine, step: Callable[[Connection], int]) -> None:
    """Repeat a step of housekeeping until nothing is left to do."""
    while True:
        with engine.begin() as connection:
            if not step(connection):
                return


def merge_files(engine: Engine) -> None:
    """Wait until the workers have merged all files, as if their calls had come an hour ago."""
    with engine.begin() as connection:
        connection.execute(text("UPDATE call_files SET created_at = now() - interval '1 hour'"))
    unmerged = text("SELECT count(*) FROM call_files WHERE replaced_at IS NULL AND level < 50")
    ends_at = time.monotonic() + _MERGING_SECONDS
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while connection.scalar(unmerged):
            if time.monotonic() > ends_at:
                raise SystemExit("the files are not merged")
            time.sleep(0.5)
        connection.execute(
            text(
                "UPDATE call_files SET replaced_at = now() - interval '2 days'"
                " WHERE replaced_at IS NOT NULL"
            )
        )
    repeat(engine, lambda connection: delete_replaced(connection, 500))


def delete_all_reports(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE audits SET raw_purged_at = now()"))
        connection.execute(text("UPDATE audits SET finished_at = now() - interval '31 days'"))
    repeat(engine, lambda connection: delete_batch_reports(connection, 30, 30))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=200)
    batches = parser.parse_args().batches
    for records in RECORDS:
        with running_service("storage", SETTINGS) as stack:
            config = stack.config
            engine = create_engine(config.migration_database_url or config.database_url)
            client = Client(stack.port, new_key(engine, mails="none"))
            for seed in range(batches):
                client.post(make_batch(records, seed))
            wait_drained(engine)
            stages = {"published": measure(engine, batches)}
            repeat(engine, lambda connection: pack_reports(connection, timedelta(0)))
            stages["packed"] = measure(engine, batches)
            merge_files(engine)
            stages["merged"] = measure(engine, batches)
            delete_all_reports(engine)
            stages["report deleted"] = measure(engine, batches)
            engine.dispose()
        print_stages(f"Bytes per audit of {records} calls", stages)


def print_stages(title: str, stages: dict[str, list[int]]) -> None:
    table = Table(title=title)
    for heading in ("table", *stages):
        table.add_column(heading, justify="left" if heading == "table" else "right")
    for number, name in enumerate(TABLES):
        table.add_row(name, *(f"{sizes[number]:,}" for sizes in stages.values()))
    table.add_row("all", *(f"{sum(sizes):,}" for sizes in stages.values()))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
