"""What someone sees who sends calls in many small batches: the same as of one file."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

import detectors
from detectors.contract import Report, UsageRecordV2
from detectors.formats import encode_chunk, read_chunks
from service.models import Audit, Mail, SpendRow
from service.models.calls.account_audits import queue_account_audit
from tests.worker.support.promises import STRESS_SECONDS, Note, at_a_twentieth, scaled
from tests.worker.support.stored import document
from worker import run_audit

SAMPLE = Path(__file__).parents[3] / "examples" / "sample-usage.jsonl"
BATCHES = 200
# How often the program of decision 45 calls, all of its processes together.
CALLS_A_MINUTE = 120
MAILS = 2


def read_sample() -> list[UsageRecordV2]:
    with SAMPLE.open("rb") as file:
        lines = [line for chunk in read_chunks(file) for line in encode_chunk(chunk).splitlines()]
    return [msgspec.json.decode(line, type=UsageRecordV2) for line in lines]


@at_a_twentieth
def test_the_sample_as_200_batches_has_the_figures_of_one_file_and_sends_few_mails(
    engine: Engine, account_id: str, store: Callable[..., str], share: float
) -> None:
    records, batches = read_sample(), scaled(BATCHES, share)
    found = audit_account([records[number::batches] for number in range(batches)], store, engine)
    expected = Report.from_json(detectors.audit(SAMPLE).to_json())
    assert found.audit == expected.audit
    assert found.findings == expected.findings
    with Session(engine) as session:
        statuses = session.scalars(select(Audit.status).distinct()).all()
        spent = session.scalar(select(func.sum(SpendRow.cost_usd)))
        mails = session.scalar(select(func.count()).where(Mail.account_id == account_id))
    assert statuses == ["done"]
    assert spent == expected.audit.total_spend_usd
    assert mails is not None
    assert mails <= MAILS


def audit_account(
    batches: list[list[UsageRecordV2]], store: Callable[..., str], engine: Engine
) -> Report:
    """Publish the batches, and return the report of the account's calls."""
    for audit_id in [store(batch) for batch in batches]:
        run_audit(audit_id)  # takes several of them
    with Session(engine) as session:
        account_id = session.scalars(select(Audit.account_id).distinct()).one()
    with engine.begin() as connection:
        account_audit = queue_account_audit(connection, account_id, 30)
    assert account_audit is not None
    run_audit(account_audit)
    return Report.from_json(document(engine, account_audit) or b"")


@pytest.mark.stress
@pytest.mark.timeout(STRESS_SECONDS)
@pytest.mark.parametrize("workers", [1, 4, 8, 16, 32])
def test_any_number_of_workers_that_send_each_minute_finds_the_same_dollars(
    workers: int, engine: Engine, store: Callable[..., str], note: Note
) -> None:
    batches = batches_of_workers(workers)
    found = audit_account(batches, store, engine)
    expected = Report.from_json(detectors.audit(SAMPLE).to_json())
    assert found.audit == expected.audit
    assert found.findings == expected.findings
    note(f"a flush a minute from {workers} workers in {len(batches):,} batches", 1, 0)


def batches_of_workers(workers: int) -> list[list[UsageRecordV2]]:
    """Return the sample as processes send it that share its calls, each once a minute."""
    records, draws = sorted(read_sample(), key=lambda record: record.ts), Random(workers)
    batches = []
    for first in range(0, len(records), CALLS_A_MINUTE):
        shares: list[list[UsageRecordV2]] = [[] for _ in range(workers)]
        for record in records[first : first + CALLS_A_MINUTE]:
            draws.choice(shares).append(record)
        batches += [share for share in shares if share]
    return batches
