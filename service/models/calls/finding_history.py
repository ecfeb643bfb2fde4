"""The history of one finding of an account: its dollars in each audit, and who changed what."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.models.audits.audits import ACCOUNT, DONE, Audit
from service.models.calls.account_audits import DEFAULT_WINDOW
from service.models.calls.account_findings import AccountFinding, FindingChange, FindingRecord

_MOST_POINTS: Final = 60
_MOST_CHANGES: Final = 100


class Point(NamedTuple):
    """The potential savings of a finding in one audit of the account; 0 if the audit lacks it."""

    audited_at: datetime
    calls: int
    monthly_usd: Decimal
    observed_usd: Decimal
    projection: str | None


def find_account_finding(
    session: Session, account_id: str, finding_id: str
) -> AccountFinding | None:
    """Return a finding of the account."""
    own = (AccountFinding.account_id == account_id, AccountFinding.id == finding_id)
    return session.scalars(select(AccountFinding).where(*own)).one_or_none()


def list_points(session: Session, finding: AccountFinding) -> Sequence[Point]:
    """Return the latest audits since the finding was first found, oldest first."""
    is_found = (FindingRecord.audit_id == Audit.id) & (
        FindingRecord.account_finding_id == finding.id
    )
    audited_at = func.coalesce(Audit.finished_at, Audit.created_at)
    query = (
        select(
            audited_at.label("audited_at"),
            func.coalesce(FindingRecord.calls, 0),
            func.coalesce(FindingRecord.monthly_usd, 0),
            func.coalesce(FindingRecord.observed_usd, 0),
            Audit.projection,
        )
        .join_from(Audit, FindingRecord, is_found, isouter=True)
        .where(
            Audit.account_id == finding.account_id,
            Audit.source == ACCOUNT,
            Audit.status == DONE,
            Audit.window_days == DEFAULT_WINDOW,
        )
        .order_by(audited_at.desc(), Audit.id)
        .limit(_MOST_POINTS)
    )
    points = [Point(*row) for row in session.execute(query)][::-1]
    first = next((at for at, point in enumerate(points) if point.calls), len(points))
    return points[first:]


def list_changes(session: Session, finding: AccountFinding) -> Sequence[FindingChange]:
    """Return the latest changes of the finding, newest first."""
    own = FindingChange.account_finding_id == finding.id
    query = select(FindingChange).where(own).order_by(FindingChange.id.desc())
    return session.scalars(query.limit(_MOST_CHANGES)).all()
