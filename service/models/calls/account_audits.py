"""Audits of an account over its calls: when one is due, how it is queued, and the latest ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from typing import Final

from sqlalchemy import (
    Connection,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from detectors.contract import CLOCK_MARGIN
from service.models.audits.audits import ACCOUNT, DONE, PROCESSING, QUEUED, Audit, of_source
from service.models.base import Base, OwnerKey, new_id, utc_now
from service.models.calls.call_files import CallFile
from service.models.calls.daily_spend import PlanRow, SpendDay

WINDOWS: Final = (7, 30, 90)  # days
DEFAULT_WINDOW: Final = 30
# The imports of a burst are audited together, once no more come.
_QUIET: Final = timedelta(minutes=10)
_AT_MOST_EVERY: Final = timedelta(hours=1)
# The time of the last import is this rough, so that workers rarely wait for each other's locks.
_ROUGHLY: Final = timedelta(minutes=1)
# An earlier audit has no calls in common with one that comes so much later.
_PERIOD: Final = timedelta(days=30)


class AccountCalls(Base):
    """When the account's calls last changed, and when they were last audited."""

    __tablename__ = "account_calls"

    account_id: Mapped[OwnerKey]
    first_import_at: Mapped[datetime]
    last_import_at: Mapped[datetime] = mapped_column(index=True)
    last_audit_at: Mapped[datetime | None]
    next_call_on: Mapped[date | None]  # the first day with calls that the last audit hasn't seen


def note_imports(connection: Connection, account_ids: Iterable[str]) -> None:
    """Note that accounts have new calls."""
    ids = sorted(set(account_ids))
    is_recent = AccountCalls.last_import_at > func.now() - _ROUGHLY
    recent = select(AccountCalls.account_id).where(AccountCalls.account_id.in_(ids), is_recent)
    known = set(connection.scalars(recent))
    for account_id in ids:
        if account_id not in known:
            now = {"first_import_at": func.now(), "last_import_at": func.now()}
            statement = insert(AccountCalls).values(account_id=account_id, **now)
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["account_id"], set_={"last_import_at": func.now()}
                )
            )


def list_due_accounts(connection: Connection, limit: int) -> Sequence[str]:
    """Return accounts with calls that no audit of the account has seen, whose turn it is.

    That is after ten quiet minutes, at most once an hour; and once a day (UTC) if calls never stop,
    or if the time of calls has come that were in the future.
    """
    last_audit = func.coalesce(AccountCalls.last_audit_at, AccountCalls.first_import_at)
    has_new = or_(
        AccountCalls.last_audit_at.is_(None),
        AccountCalls.last_import_at > AccountCalls.last_audit_at,
    )
    is_quiet = and_(
        AccountCalls.last_import_at < func.now() - _QUIET,
        or_(
            AccountCalls.last_audit_at.is_(None),
            AccountCalls.last_audit_at < func.now() - _AT_MOST_EVERY,
        ),
    )
    is_next_day = last_audit < func.date_trunc("day", func.now(), "UTC")
    has_entered = AccountCalls.next_call_on <= (utc_now() + CLOCK_MARGIN).date()
    is_due = or_(and_(has_new, is_quiet), and_(or_(has_new, has_entered), is_next_day))
    query = select(AccountCalls.account_id).where(is_due)
    return connection.scalars(query.order_by(AccountCalls.last_import_at).limit(limit)).all()


def queue_account_audit(connection: Connection, account_id: str, days: int) -> str | None:
    """Queue an audit of the account, unless one is unfinished; return its ID.

    Return None if the account has no calls. The caller enqueues it after the commit.
    """
    live = (CallFile.account_id == account_id, CallFile.replaced_at.is_(None))
    calls = connection.scalar(select(func.sum(CallFile.calls)).where(*live))
    if not calls:
        return None
    new = {
        "id": new_id(),
        "account_id": account_id,
        "source": ACCOUNT,
        "status": QUEUED,
        "created_at": utc_now(),
        "blob_key": "",
        "raw_purged_at": func.now(),
        "window_days": days,
        "records": int(calls),
    }
    is_unfinished = text("source = 'account' AND status IN ('queued', 'processing')")
    added = connection.scalar(
        insert(Audit)
        .values(new)
        .on_conflict_do_nothing(index_elements=["account_id"], index_where=is_unfinished)
        .returning(Audit.id)
    )
    today = utc_now().date()
    ahead = [
        select(func.min(table.day))
        .where(table.account_id == account_id, table.day > today)
        .scalar_subquery()
        for table in (SpendDay, PlanRow)
    ]
    next_call_on = func.least(*ahead)  # ignores nulls
    noted = update(AccountCalls).where(AccountCalls.account_id == account_id)
    connection.execute(noted.values(last_audit_at=func.now(), next_call_on=next_call_on))
    unfinished = (Audit.source == ACCOUNT, Audit.status.in_((QUEUED, PROCESSING)))
    query = select(Audit.id).where(Audit.account_id == account_id, *unfinished)
    return added or connection.scalar(query)


@dataclass(frozen=True)
class AccountAudits:
    """The latest finished audit of an account, the one that is queued or running, and an earlier.

    The earlier one has the same window, and is at least 30 days older. `imported` is the latest
    audit of a batch or a file.
    """

    latest: Audit | None
    unfinished: Audit | None
    earlier: Audit | None
    imported: Audit | None


def find_account_audits(session: Session, account_id: str) -> AccountAudits:
    """Return the audits of the account that its dashboard shows."""
    found = session.scalars(_latest_query(), {"account_id": account_id}).all()
    own = [audit for audit in found if audit.source == ACCOUNT]
    finished = [audit for audit in own if audit.status == DONE]
    return AccountAudits(
        next(iter(finished), None),
        next((audit for audit in own if audit.status != DONE), None),
        next(iter(finished[1:]), None),
        next((audit for audit in found if audit.source != ACCOUNT), None),
    )


@cache
def _latest_query() -> Select[Audit]:
    own = Audit.account_id == bindparam("account_id")
    newest_first = (Audit.created_at.desc(), Audit.id.desc())
    any_source = select(Audit.id).where(own).order_by(*newest_first).limit(1)
    newest, imported = (any_source.where(of_source(each)) for each in (ACCOUNT, None))
    columns = (Audit.id, Audit.window_days, Audit.created_at)
    done = newest.where(Audit.status == DONE).with_only_columns(*columns).subquery()
    unfinished = newest.where(Audit.status.in_((QUEUED, PROCESSING)))
    earlier = newest.join(done, true()).where(
        Audit.status == DONE,
        Audit.window_days == done.c.window_days,
        Audit.created_at <= done.c.created_at - _PERIOD,
    )
    ids = [query.scalar_subquery() for query in (select(done.c.id), unfinished, earlier, imported)]
    return select(Audit).where(own, Audit.id.in_(ids)).order_by(*newest_first)
