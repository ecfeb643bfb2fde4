"""What coding agents count of themselves, by day and model: totals to compare with calls.

They are sums of a process and say nothing of a single call, so nothing adds them to spend. A series
is what one process measures of one kind of tokens, known by a hash of what describes it. Its values
stay for as long as they may be sent again.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Date,
    Index,
    LargeBinary,
    Numeric,
    and_,
    bindparam,
    cast,
    delete,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, mapped_column

from service.models.base import Base, Executor, Lock, OwnerKey, take_lock, utc_now
from service.models.calls.call_files import CallFile
from service.models.calls.daily_spend import PlanRow, SpendRow
from service.models.connections.bill import TOKENS, Days
from service.models.connections.unsent import is_counted

# A value that is older is not taken. Exporters send within minutes, and again within hours.
TAKEN_FOR: Final = timedelta(days=2)
# A day's value of a series is kept by the day's beginning.
_KEPT_FOR: Final = TAKEN_FOR + timedelta(days=1)
ESTIMATE: Final = "estimated_usd"
_SECOND_NS: Final = 10**9
_DAY_NS: Final = 86_400 * _SECOND_NS
_USD: Final = Numeric(30, 12)
# Agents have a few dozen models. What further names count on a day goes together under this one.
MAX_MODELS: Final = 500
OTHER: Final = "other"
# What a total stops at, so that no sum of values is too large for a column.
_MOST: Final = 10**15

# What totals gain, by agent, day and model, and by column.
Gains = dict[tuple[str, date, str], dict[str, Decimal]]
Slots = dict[int, Decimal]  # the values of a series since it began, by what each is kept under


class AgentPoint(Base):
    """A value of a series: of an interval, by its end, or up to a day's end, by its midnight."""

    __tablename__ = "agent_points"
    __table_args__ = (Index("ix_agent_points_slot_ns", "slot_ns"),)

    account_id: Mapped[OwnerKey]
    series: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    begun_ns: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    slot_ns: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    amount: Mapped[Decimal] = mapped_column(_USD)


class AgentTotal(Base):
    """What an agent counted of a model on a day, on all machines; the dollars are its guess."""

    __tablename__ = "agent_totals"

    account_id: Mapped[OwnerKey]
    agent: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True)
    prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    completion_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    cache_write_tokens: Mapped[int] = mapped_column(BigInteger)
    estimated_usd: Mapped[Decimal] = mapped_column(_USD)


class Measured(NamedTuple):
    """A value of a series. One of an interval (delta) is new; others are since the beginning."""

    agent: str
    model: str
    columns: Sequence[str]  # of the totals that it is part of
    series: bytes
    is_delta: bool
    begun_ns: int
    ended_ns: int
    amount: Decimal


def add_measured(connection: Connection, account_id: str, values: Sequence[Measured]) -> None:
    """Add values to the totals of the days on which they end; those that are known add nothing."""
    if not values:
        return
    take_lock(connection, Lock.AGENT_TOTALS, account_id)
    oldest = _now_ns() - _nanoseconds(TAKEN_FOR)
    known = _find_slots(connection, account_id, {(each.series, each.begun_ns) for each in values})
    changed: dict[tuple[bytes, int, int], Decimal] = {}
    gained = _no_gains()
    for each in values:
        slots = known[each.series, each.begun_ns]
        slot = each.ended_ns if each.is_delta else each.ended_ns - each.ended_ns % _DAY_NS
        known_amount = slots.get(slot)
        if not each.is_delta:
            gains = _raise(slots, slot, each.amount, is_old=each.begun_ns < oldest)
        else:
            gains = {} if slot in slots else {slot: each.amount}
            slots |= gains
        if slots.get(slot) != known_amount:
            changed[each.series, each.begun_ns, slot] = slots[slot]
        for at, amount in gains.items():
            day = datetime.fromtimestamp(at // _SECOND_NS, UTC).date()
            total = gained[each.agent, day, each.model]
            for name in each.columns:
                total[name] += amount
    if changed:
        names = ("series", "begun_ns", "slot_ns")
        new = insert(AgentPoint)
        new = new.on_conflict_do_update(
            index_elements=("account_id", *names), set_={"amount": new.excluded.amount}
        )
        rows = [
            {"account_id": account_id, "amount": amount, **dict(zip(names, key, strict=True))}
            for key, amount in changed.items()
        ]
        connection.execute(new, rows)
        _save_totals(connection, account_id, gained)


def _raise(slots: Slots, midnight: int, amount: Decimal, *, is_old: bool) -> Slots:
    """Note a value since the beginning; return what the days gain by it.

    The order in which values arrive makes no difference: a day has what its highest value is above
    that of the days before. Of a series that began long before the first value that we know, only
    what follows counts.
    """
    if is_old and not slots:
        slots[midnight] = amount
    if is_old and midnight < min(slots):
        return {}
    before = _by_day(slots)
    slots[midnight] = max(amount, slots.get(midnight, amount))
    return {day: usage - before.get(day, 0) for day, usage in _by_day(slots).items()}


def _by_day(slots: Slots) -> Slots:
    found, highest = {}, Decimal(0)
    for midnight in sorted(slots):
        found[midnight] = max(slots[midnight] - highest, Decimal(0))
        highest = max(slots[midnight], highest)
    return found


def _find_slots(
    connection: Connection, account_id: str, series: Collection[tuple[bytes, int]]
) -> dict[tuple[bytes, int], Slots]:
    arrays = (
        bindparam("series", [each[0] for each in series], ARRAY(LargeBinary)),
        bindparam("begun_ns", [each[1] for each in series], ARRAY(BigInteger)),
    )
    wanted = func.unnest(*arrays).table_valued("series", "begun_ns").render_derived()
    point = AgentPoint
    query = select(point.series, point.begun_ns, point.slot_ns, point.amount).join(
        wanted, and_(point.series == wanted.c.series, point.begun_ns == wanted.c.begun_ns)
    )
    found: dict[tuple[bytes, int], Slots] = defaultdict(dict)
    for own, begun, slot, amount in connection.execute(query.where(point.account_id == account_id)):
        found[own, begun][slot] = amount
    return found


def _save_totals(connection: Connection, account_id: str, gained: Gains) -> None:
    keys, counts = ("agent", "day", "model"), (*TOKENS, ESTIMATE)
    new = insert(AgentTotal)
    sums = {
        name: func.least(getattr(AgentTotal, name) + new.excluded[name], _MOST) for name in counts
    }
    new = new.on_conflict_do_update(index_elements=("account_id", *keys), set_=sums)
    # What models beyond the limit gain goes under one name.
    table = AgentTotal
    known: dict[tuple[str, date], set[str]] = defaultdict(set)
    days = tuple_(table.agent, table.day).in_({key[:2] for key in gained})
    query = select(table.agent, table.day, table.model).where(table.account_id == account_id, days)
    for agent, day, model in connection.execute(query):
        known[agent, day].add(model)
    limited = _no_gains()
    for (agent, day, model), total in gained.items():
        names = known[agent, day]
        if any(total.values()) and len(names) < MAX_MODELS:
            names.add(model)
        under = limited[agent, day, model if model in names else OTHER]
        for name, amount in total.items():
            under[name] += amount
    rows = [
        {
            "account_id": account_id,
            **dict(zip(keys, key, strict=True)),
            **{name: min(total.get(name, 0), _MOST) for name in counts},
        }
        for key, total in limited.items()
        if any(total.values())
    ]
    if rows:
        connection.execute(new, rows)


def _no_gains() -> Gains:
    return defaultdict(lambda: defaultdict(Decimal))


def list_agent_months(session: Executor, account_id: str) -> Sequence[tuple[date, str]]:
    """Return the months and agents with totals, newest first."""
    month = cast(func.date_trunc("month", AgentTotal.day), Date)
    query = select(month, AgentTotal.agent).where(AgentTotal.account_id == account_id).distinct()
    found = [(row[0], row[1]) for row in session.execute(query)]
    return sorted(found, key=lambda each: (-each[0].toordinal(), each[1]))


def list_agent_totals(session: Executor, account_id: str, agent: str, days: Days) -> Sequence[Any]:
    """Return the day, the model, `TOKENS` and the estimate of each total."""
    table = AgentTotal
    columns = [getattr(table, name) for name in ("day", "model", *TOKENS, ESTIMATE)]
    mine = (table.account_id == account_id, table.agent == agent, table.day.between(*days))
    return session.execute(select(*columns).where(*mine)).all()


def list_held(
    session: Executor, account_id: str, providers: Collection[str], days: Days
) -> Iterator[Any]:
    """Yield the day, the model and `TOKENS` of the calls of these providers, billed or included."""
    # The previous release leaves the lines of a merged file.
    is_live = or_(CallFile.replaced_at.is_(None), CallFile.purged_at.is_not(None))
    for table in (SpendRow, PlanRow):
        sums = [cast(func.sum(getattr(table, name)), BigInteger) for name in TOKENS]
        query = select(table.day, table.model, *sums).group_by(table.day, table.model)
        mine = (table.account_id == account_id, func.lower(table.provider).in_(providers))
        query = query.where(*mine, table.day.between(*days))
        if table is PlanRow:
            query = query.join(CallFile, CallFile.id == PlanRow.file_id).where(is_live)
        else:
            query = query.where(is_counted())
        yield from session.execute(query)


def delete_old_points(connection: Connection, limit: int) -> int:
    """Delete values that can't be sent again; return their number."""
    return _delete_some(
        connection, AgentPoint, AgentPoint.slot_ns < _now_ns() - _nanoseconds(_KEPT_FOR), limit
    )


def delete_old_totals(connection: Connection, days: int, limit: int) -> int:
    """Delete totals of days so many days ago; return their number."""
    return _delete_some(
        connection, AgentTotal, AgentTotal.day < utc_now().date() - timedelta(days=days), limit
    )


def _delete_some(
    connection: Connection, table: Any, is_old: ColumnElement[bool], limit: int
) -> int:
    keys = tuple_(*table.__table__.primary_key)
    some = select(*table.__table__.primary_key).where(is_old).limit(limit)
    return connection.execute(delete(table).where(keys.in_(some))).rowcount


def _now_ns() -> int:
    return int(utc_now().timestamp()) * _SECOND_NS


def _nanoseconds(time: timedelta) -> int:
    return int(time.total_seconds()) * _SECOND_NS
