"""The same 100,000 calls, however they arrive: the report of the account is that of a file."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from benchmarks.account.traffic import calls_of_day
from detectors.contract import UsageRecord, UsageRecordV2
from detectors.formats import encode_records
from service.core.blobs import BlobStore
from service.models import Audit, SpendRow
from tests.warm import run_warm
from tests.worker.calls.test_account_audits import audit_account, records, report_of
from worker import run_audit

CALLS: Final = 100_000
DAYS: Final = 10
IMPORTS: Final = {"20 batches": 20, "10,000 batches": 10_000, "one upload": 1}
MOST_QUEUED: Final = 1_000
START: Final = datetime(2026, 10, 1, tzinfo=UTC)


def draw_calls() -> list[UsageRecord]:
    """Return calls of ten days with every kind of label, and with findings that need a session."""
    others = records()
    found: list[UsageRecord] = [*others]
    for day in range(DAYS):
        frame = calls_of_day(day, (CALLS - len(others)) // DAYS + 1, 50, START)
        for row in frame.iter_rows(named=True):
            given = {name: value for name, value in row.items() if value not in ("", None)}
            found.append(UsageRecordV2(**given))
    return sorted(found[:CALLS], key=lambda record: record.ts)


@pytest.fixture(scope="module")
def calls() -> list[UsageRecord]:
    return draw_calls()


@pytest.fixture(scope="module")
def file_report(calls: list[UsageRecord], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The report of `python -m detectors audit` of one file."""
    folder = tmp_path_factory.mktemp("file")
    (folder / "calls.jsonl").write_bytes(encode_records(calls))
    names = [str(folder / name) for name in ("calls.jsonl", "report.json")]
    run = run_warm(("detectors", "audit", names[0], "--json", names[1]), os.environ, 300)
    assert run.returncode == 0, run.stderr
    return json.loads(Path(names[1]).read_bytes())


@pytest.mark.stress
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("arrangement", [*IMPORTS, "all at once"])
def test_the_account_has_the_report_of_one_file(
    arrangement: str,
    calls: list[UsageRecord],
    file_report: Any,
    engine: Engine,
    blobs: BlobStore,
    account_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEASE_SECONDS", "60")  # no sweeper would requeue what loses its lease
    chosen = [arrangement] if arrangement in IMPORTS else list(IMPORTS)
    for name in chosen:
        publish_in(IMPORTS[name], calls, engine, blobs, account_id)
    audit = audit_account(engine, account_id)
    report = json.loads(report_of(engine, audit.id).to_json())
    assert len(report["findings"]) > 20
    for part in ("findings", "savings_by_detector", "spend_by_day", "spend_by_route"):
        assert report[part] == file_report[part]
    again = CALLS * (len(chosen) - 1)
    expected = file_report["audit"]
    assert report["audit"] == expected | {"echoes_dropped": again}
    with Session(engine) as session:
        spent = session.scalar(select(func.sum(SpendRow.cost_usd)))
    assert spent == Decimal(str(expected["total_spend_usd"]))


def publish_in(
    imports: int, calls: Sequence[UsageRecord], engine: Engine, blobs: BlobStore, account_id: str
) -> None:
    """Publish the calls as so many batches, or as an upload."""
    size, source = len(calls) // imports, "upload" if imports == 1 else "ingest"
    pieces = [calls[first : first + size] for first in range(0, len(calls), size)]
    for first in range(0, imports, MOST_QUEUED):
        with Session(engine) as session:
            for own in pieces[first : first + MOST_QUEUED]:
                audit = Audit(account_id=account_id, source=source, blob_key="", records=len(own))
                session.add(audit)
                session.flush()
                audit.blob_key = f"raw/{audit.id}.jsonl"
                blobs.put(audit.blob_key, encode_records(own))
            session.commit()
        run_all(engine, account_id)


def run_all(engine: Engine, account_id: str) -> None:
    waiting = select(Audit.id).where(Audit.account_id == account_id, Audit.status == "queued")
    while True:
        with Session(engine) as session:
            audit_id = session.scalar(waiting.limit(1))
        if audit_id is None:
            return
        run_audit(audit_id)
