"""Publish reports: each audit's totals, its findings and its document, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert

from detectors.contract import AuditedWindow, DailySpend, Finding, Report
from detectors.wording.impact import has_savings
from service.models.audits.audits import FindingRow, ReportRow
from service.models.audits.leases import Claim, finish_each

# Columns of `Audit` that have the names and values of the report's totals.
COPIED: Final = (
    *("records", "valid_pct", "observed_days", "total_spend_usd", "projected_spend_usd"),
    *("projected_savings_usd", "savings_pct", "equiv_spend", "span_days"),
    *("monthly_factor", "verified_savings_usd", "estimated_savings_usd"),
    *("estimated_savings_low_usd", "estimated_savings_high_usd", "conditional_savings_usd"),
    *("conditional_savings_low_usd", "conditional_savings_high_usd"),
)


@dataclass(frozen=True)
class StoredFrame:
    """The stored calls of an audit: their number, the frame's size and its SHA-256."""

    calls: int
    size: int
    content_hash: bytes


@dataclass(frozen=True)
class Result:
    """A computed audit whose frame is stored, and the spend of its calls by day.

    An audit of the account has neither, since its calls are stored already.
    """

    claim: Claim
    report: Report
    frame: StoredFrame | None = None
    first_day: date | None = None
    last_day: date | None = None
    spend: Sequence[DailySpend] = ()
    priced_with: str | None = None
    window: AuditedWindow | None = None  # of an audit of the account


def publish_reports(connection: Connection, results: Sequence[Result]) -> set[Claim]:
    """Mark the audits done and replace their reports; return the claims that held their audits."""
    totals: dict[Claim, dict[str, Any]] = {}
    for result in results:
        audit = result.report.audit
        totals[result.claim] = {
            "frame_key": result.claim.frame_key if result.frame else None,
            "frame_bytes": result.frame.size if result.frame else None,
            "findings_count": len(result.report.findings),
            "priced_findings": sum(has_savings(each) for each in result.report.findings),
            "window_start": _moment(audit.window_start),
            "included_calls": audit.included_calls or 0,
            "projection": audit.projection or None,
            **{name: getattr(audit, name) for name in COPIED},
        }
    held = finish_each(connection, totals)
    published = [result for result in results if result.claim in held]
    if published:
        ids = [result.claim.audit_id for result in published]
        for table in (FindingRow, ReportRow):
            connection.execute(delete(table).where(table.audit_id.in_(ids)))
        findings = [
            _finding_row(result.claim.audit_id, rank, finding)
            for result in published
            for rank, finding in enumerate(result.report.findings, 1)
        ]
        if findings:
            connection.execute(insert(FindingRow), findings)
        documents = [
            {"audit_id": result.claim.audit_id, "document": result.report.to_json()}
            for result in published
        ]
        # The database's time, as the audit's end, which a failed recalculation restores from it.
        connection.execute(insert(ReportRow).values(created_at=func.now()), documents)
    return held


def _moment(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def _finding_row(audit_id: str, rank: int, finding: Finding) -> dict[str, Any]:
    columns = FindingRow.__table__.columns.keys()
    seen = {name: _moment(getattr(finding, name)) for name in ("first_seen", "last_seen")}
    own = {"audit_id": audit_id, "rank": rank, **seen}
    return own | {name: getattr(finding, name) for name in columns if name not in own}
