"""An account's calls on days after today: what they add up to, and how they are deleted.

Their clocks are wrong, or ahead by less than a day. They are stored like others, and are in every
figure once their day has come. Those that a plan includes are counted and cost nothing.
"""

from collections.abc import Collection, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Connection,
    Numeric,
    Row,
    Select,
    bindparam,
    exists,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.orm import Session

from service.models.base import Executor
from service.models.calls.account_audits import note_imports
from service.models.calls.call_files import IMPORT, CallFile, CallImport, DeletedCalls
from service.models.calls.daily_spend import PlanRow, SpendDay, SpendRow, day_of

MOST_LINES: Final = 200
_DAY: Final = timedelta(days=1)
_NO_COST: Final = literal(Decimal(0), Numeric).label("cost_usd")


class FutureCalls(NamedTuple):
    """The calls after today and their dollars; `last` is None without any."""

    calls: int
    cost_usd: Decimal
    last: date | None


class FutureLine(NamedTuple):
    """The calls of one day, route and model."""

    day: date
    route: str
    provider: str
    model: str
    calls: int
    cost_usd: Decimal


def sum_future_calls(
    session: Executor, account_id: str, today: date, *, is_local: bool = False
) -> FutureCalls:
    """Return the sums of all calls after today: a day in UTC or, if it is local, of the zone."""
    query = _sums_query(is_local=is_local)
    row = session.execute(query, {"account_id": account_id, "today": today}).one()
    return FutureCalls(int(row[0] or 0), row[1] or Decimal(0), row[2])


@cache
def _sums_query(*, is_local: bool) -> Select[Any]:
    own: tuple[Any, Any] = (bindparam("account_id"), bindparam("today"))
    days = (day_of(table, is_local=is_local).label("day") for table in (SpendDay, PlanRow))
    spent, plans = (select(day).where(day > own[1]) for day in days)
    spent = spent.add_columns(SpendDay.calls, SpendDay.cost_usd)
    plans = plans.add_columns(PlanRow.calls, _NO_COST)
    # Indexes have UTC days, of which today and those after it can be a later day of a zone.
    spent = spent.where(SpendDay.account_id == own[0], SpendDay.day >= own[1])
    plans = plans.where(PlanRow.account_id == own[0], PlanRow.day >= own[1])
    both = spent.union_all(plans).subquery().c
    return select(func.sum(both.calls), func.sum(both.cost_usd), func.max(both.day))


def list_future_calls(session: Session, account_id: str, today: date) -> Sequence[FutureLine]:
    """Return the calls after today by day, route and model, the first `MOST_LINES` of them."""
    names = ("day", "route", "provider", "model", "calls")
    spent = select(*(getattr(SpendRow, name) for name in names), SpendRow.cost_usd)
    spent = spent.where(SpendRow.account_id == account_id, SpendRow.day > today)
    plans = select(*(getattr(PlanRow, name) for name in names), _NO_COST)
    plans = plans.where(PlanRow.account_id == account_id, PlanRow.day > today)
    both = spent.union_all(plans).subquery().c
    keys = (both.day, both.route, both.provider, both.model)
    query = select(*keys, func.sum(both.calls), func.sum(both.cost_usd))
    rows = session.execute(query.group_by(*keys).order_by(*keys).limit(MOST_LINES))
    return [
        FutureLine(row.day, row.route, row.provider, row.model, int(row[4]), row[5]) for row in rows
    ]


def delete_future_calls(
    session: Session, account_id: str, today: date, days: tuple[date, date]
) -> int:
    """Have compaction delete the account's calls of those days that are after today.

    Return the number of calls. The caller enqueues a compaction after the commit. Repeating it adds
    no rows.
    """
    first, last = max(days[0], today + _DAY), days[1]
    calls = sum(
        session.scalar(
            select(func.sum(table.calls)).where(
                table.account_id == account_id, table.day.between(first, last)
            )
        )
        or 0
        for table in (SpendDay, PlanRow)
    )
    if not calls:
        return 0
    brought = select(
        CallImport.account_id, CallImport.audit_id, literal(first), literal(last)
    ).where(
        CallImport.account_id == account_id,
        CallImport.first_day <= last,
        CallImport.last_day >= first,
        ~exists().where(
            DeletedCalls.audit_id == CallImport.audit_id,
            DeletedCalls.first_day <= first,
            DeletedCalls.last_day >= last,
        ),
    )
    names = ("account_id", "audit_id", "first_day", "last_day")
    session.execute(insert(DeletedCalls).from_select(names, brought))
    return int(calls)


def is_deleting(session: Session, account_id: str) -> bool:
    """Check whether deleted calls are still in the account's files."""
    pending = (DeletedCalls.account_id == account_id, DeletedCalls.applied_at.is_(None))
    return bool(session.scalar(select(exists().where(*pending))))


def list_pending_deletions(
    connection: Connection, account_id: str
) -> Sequence[Row[int, str, date, date]]:
    """Return deletions whose calls compaction must leave out, each with the import's reading."""
    columns = (DeletedCalls.id, CallImport.import_id, DeletedCalls.first_day, DeletedCalls.last_day)
    query = select(*columns).join(CallImport, CallImport.audit_id == DeletedCalls.audit_id)
    pending = (DeletedCalls.account_id == account_id, DeletedCalls.applied_at.is_(None))
    return connection.execute(query.where(*pending)).all()


def finish_deletions(connection: Connection, account_id: str, ids: Collection[int]) -> None:
    """Note that no file has the calls any more, but for imports that are not merged yet."""
    if not ids:
        return
    named = DeletedCalls.id.in_(ids)
    # A new reading of an import may be just being published; the update must see its file.
    connection.execute(
        select(DeletedCalls.id).where(named).order_by(DeletedCalls.id).with_for_update()
    )
    unmerged = (
        exists()
        .where(CallFile.account_id == account_id, CallFile.replaced_at.is_(None))
        .where(CallFile.level == IMPORT, CallFile.import_id == CallImport.import_id)
        .where(CallImport.audit_id == DeletedCalls.audit_id)
    )
    done = update(DeletedCalls).where(named, ~unmerged).values(applied_at=func.now())
    if connection.execute(done).rowcount:
        note_imports(connection, [account_id])  # the next audit counts fewer calls in the future
