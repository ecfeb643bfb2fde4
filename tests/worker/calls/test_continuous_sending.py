"""What someone sees who sends calls in many small batches: the same as of one file."""

from collections.abc import Callable
from pathlib import Path

import msgspec
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

import detectors
from detectors.contract import Report, UsageRecordV2
from detectors.formats import encode_chunk, read_chunks
from service.models import Audit, Mail, SpendRow
from service.models.calls.account_audits import queue_account_audit
from tests.worker.support.promises import at_a_twentieth, scaled
from tests.worker.support.stored import document
from worker import run_audit

SAMPLE = Path(__file__).parents[3] / "examples" / "sample-usage.jsonl"
BATCHES = 200
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
    audit_ids = [store(records[number::batches]) for number in range(batches)]
    for audit_id in audit_ids:
        run_audit(audit_id)  # takes several of them
    with engine.begin() as connection:
        account_audit = queue_account_audit(connection, account_id, 30)
    assert account_audit is not None
    run_audit(account_audit)
    found = Report.from_json(document(engine, account_audit) or b"")
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
