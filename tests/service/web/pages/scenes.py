"""The data behind an account's pages: audits of every kind, findings and reports."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from detectors.contract import Report
from service.models import Audit, FindingRow, ReportRow
from tests.service.support.scenes import Sessions


def add_run(
    sessions: Sessions, account_id: str, report: Report | None = None, **fields: Any
) -> str:
    """An audit with these fields, and a report where there is one; returns its id."""
    values = {"source": "upload", "status": "done", "blob_key": "raw/x.jsonl", **fields}
    with sessions() as session:
        audit = Audit(account_id=account_id, **values)
        session.add(audit)
        session.flush()
        if report is not None:
            session.add(ReportRow(audit_id=audit.id, document=report.to_json()))
        session.commit()
        return audit.id


def add_spending_run(
    sessions: Sessions, account_id: str, at: datetime, spend: int, avoidable: int, **fields: Any
) -> str:
    """A finished audit of 15 days, so that projected figures are twice those of the audit."""
    return add_run(
        sessions,
        account_id,
        created_at=at,
        total_spend_usd=Decimal(spend),
        projected_spend_usd=Decimal(2 * spend),
        projected_savings_usd=Decimal(2 * avoidable),
        savings_pct=100 * avoidable / spend,
        **fields,
    )


def add_finding(sessions: Sessions, audit_id: str, rank: int, usd: int, **fields: Any) -> None:
    values = {
        "id": f"d1-{rank:03d}",
        "detector": "d1_model_overkill",
        "kind": "",
        "route": "support-bot",
        "provider": "openai",
        "model": "gpt-4o",
        "calls": 10,
        "severity": "high",
        "confidence": "ESTIMATED",
        "observed_cost_impact_usd": Decimal(usd),
        "monthly_cost_impact_usd": Decimal(usd),
        "fix": "Try another model.",
        **fields,
    }
    with sessions() as session:
        session.add(FindingRow(audit_id=audit_id, rank=rank, **values))
        session.commit()
