"""Which accounts get a weekly digest, and for which week."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, Row, exists, func, or_, select, update

from service.models.calls.account_findings import AccountFinding, FindingChange
from service.models.calls.daily_spend import PlanRow, SpendDay
from service.models.identity.accounts import WEEKLY, Account

WEEKLY_DIGEST: Final = "weekly_digest"
_WEEK: Final = timedelta(days=7)
# A new account has had none; its first digest is of its first week.
_SENT_UNTIL: Final = func.coalesce(Account.digest_sent_until, Account.created_at)


def list_due_weekly(
    connection: Connection, ended_at: datetime, limit: int
) -> Sequence[Row[str, str]]:
    """Return accounts that want a digest of the week that has ended and have not had it.

    They had calls in it, or findings that changed.
    """
    began_at = ended_at - _WEEK
    has_calls = [
        exists().where(
            table.account_id == Account.id,
            table.day >= began_at.date(),
            table.day < ended_at.date(),
        )
        for table in (SpendDay, PlanRow)
    ]
    has_changes = exists().where(
        AccountFinding.account_id == Account.id,
        FindingChange.account_finding_id == AccountFinding.id,
        FindingChange.changed_at >= began_at,
        FindingChange.changed_at < ended_at,
    )
    query = select(Account.id, Account.email).where(
        Account.report_mails == WEEKLY, ended_at > _SENT_UNTIL, or_(*has_calls, has_changes)
    )
    return connection.execute(query.order_by(Account.id).limit(limit)).all()


def claim_week(connection: Connection, account: Row[str, str], ended_at: datetime) -> bool:
    """Note that the account's digest is posted; False if another process has posted it."""
    due = (Account.id == account.id, Account.report_mails == WEEKLY, ended_at > _SENT_UNTIL)
    moved = update(Account).where(*due).values(digest_sent_until=ended_at)
    return connection.execute(moved).rowcount == 1
