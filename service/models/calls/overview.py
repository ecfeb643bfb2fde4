"""What the dashboard reads about an account: its own audits, and its unusual days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.models.audits.audits import ACCOUNT, DONE, PROCESSING, QUEUED, Audit
from service.models.watching.watches import UnusualDay

_MONTH: Final = timedelta(days=30)
_LATEST: Final = 5  # unusual days


@dataclass(frozen=True)
class AccountAudits:
    """The latest finished audit of an account, the one that is queued or running, and an earlier.

    The earlier one has the same window, and is at least 30 days older.
    """

    latest: Audit | None
    unfinished: Audit | None
    earlier: Audit | None


def find_account_audits(session: Session, account_id: str) -> AccountAudits:
    """Return the audits of the account that its dashboard shows."""
    own = select(Audit).where(Audit.account_id == account_id, Audit.source == ACCOUNT)
    newest = own.order_by(Audit.created_at.desc(), Audit.id.desc()).limit(1)
    done = newest.where(Audit.status == DONE)
    unfinished = newest.where(Audit.status.in_((QUEUED, PROCESSING)))
    latest = session.scalars(done).one_or_none()
    earlier = None
    if latest is not None:
        is_same = Audit.window_days == latest.window_days
        before = Audit.created_at <= latest.created_at - _MONTH
        earlier = session.scalars(done.where(is_same, before)).one_or_none()
    return AccountAudits(latest, session.scalars(unfinished).one_or_none(), earlier)


def list_unusual_days(
    session: Session, account_id: str, days: tuple[date, date]
) -> Sequence[UnusualDay]:
    """Return the latest unusual days of a range, newest first."""
    query = select(UnusualDay).where(
        UnusualDay.account_id == account_id, UnusualDay.day.between(*days)
    )
    return session.scalars(query.order_by(UnusualDay.day.desc()).limit(_LATEST)).all()
