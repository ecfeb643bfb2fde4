"""What the dashboard shows of an account's calls: spend by day, and its latest audit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.models.audits.audits import ACCOUNT, DONE, PROCESSING, QUEUED, Audit, FindingRow
from service.models.audits.dashboard import TopFinding
from service.models.calls.daily_spend import SpendRow

_TOP_FINDINGS: Final = 6


@dataclass(frozen=True)
class AccountAudits:
    """The latest finished audit of an account, and the one that is queued or running, if any."""

    latest: Audit | None
    unfinished: Audit | None


def find_account_audits(session: Session, account_id: str) -> AccountAudits:
    """Return the audits of the account that its dashboard shows."""
    own = select(Audit).where(Audit.account_id == account_id, Audit.source == ACCOUNT)
    newest = own.order_by(Audit.created_at.desc(), Audit.id.desc()).limit(1)
    return AccountAudits(
        latest=session.scalars(newest.where(Audit.status == DONE)).one_or_none(),
        unfinished=session.scalars(
            newest.where(Audit.status.in_((QUEUED, PROCESSING)))
        ).one_or_none(),
    )


def sum_days(session: Session, account_id: str, since: date) -> dict[date, Decimal]:
    """Return the spend of each day of call since a day, in UTC."""
    query = select(SpendRow.day, func.sum(SpendRow.cost_usd)).where(
        SpendRow.account_id == account_id, SpendRow.day >= since
    )
    rows = session.execute(query.group_by(SpendRow.day).order_by(SpendRow.day))
    return {row[0]: row[1] for row in rows}


def list_findings(session: Session, audit: Audit) -> Sequence[TopFinding]:
    """Return the most valuable findings of an audit of the account."""
    columns = (
        *(FindingRow.id, FindingRow.detector, FindingRow.route, FindingRow.model),
        *(FindingRow.severity, FindingRow.confidence, FindingRow.monthly_cost_impact_usd),
    )
    query = select(*columns).where(
        FindingRow.audit_id == audit.id, FindingRow.monthly_cost_impact_usd > 0
    )
    rows = session.execute(query.order_by(FindingRow.rank).limit(_TOP_FINDINGS))
    return [TopFinding(audit.id, *row, projection=audit.projection, audits=1) for row in rows]
