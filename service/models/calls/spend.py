"""Sums of an account's spend: by up to three keys, over a range of days, of calls with some labels.

They read `daily_spend`, or one of its two summaries that has all that is asked for, so they take as
long for a billion calls as for a thousand. Which call files the rows belong to does not matter.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import ColumnElement, Select, collate, func, or_, select, tuple_
from sqlalchemy.orm import Session

from service.models.base import Executor
from service.models.calls.daily_spend import PlanRow, SpendDay, SpendGroup, SpendRow

DAY: Final = "day"
KEYS: Final = (DAY, "route", "model", "provider", "environment")
MAX_KEYS: Final = 3
MAX_DAYS: Final = 400
# Orders of groups: by their keys, by their cost, and by how much their cost per day has changed.
BY_KEY, BY_COST, BY_CHANGE = "key", "cost", "change"
_BRIEF: Final = ("calls", "cost_usd")
_PREVIOUS: Final = {"previous_calls": "calls", "previous_usd": "cost_usd"}
_BATCH: Final = 1_000
_ALL: Final[Mapping[str, str]] = MappingProxyType({})

Key = tuple[date | str, ...]
UsdByDay = Mapping[date, Decimal]


class Sums(NamedTuple):
    """The sums of some calls. Calls without a price add to the counts and not to the dollars.

    A brief selection has calls and cost alone.
    """

    calls: int = 0
    unpriced_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    list_usd: Decimal = Decimal(0)


class Line(NamedTuple):
    """The sums of one group, with a value for each key, and its calls and cost before."""

    key: Key
    sums: Sums
    previous_calls: int = 0
    previous_usd: Decimal = Decimal(0)

    @property
    def value(self) -> Any:
        return self.key[0]


class Spend(NamedTuple):
    """Some groups, the number of all groups, and the sums of all."""

    groups: Sequence[Line]
    group_count: int
    totals: Sums
    previous_calls: int
    previous_usd: Decimal


@dataclass(frozen=True)
class Period:
    """A range of days in UTC, both inclusive."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def previous(self) -> "Period":
        """Return the period before, of the same length."""
        return Period(self.first - timedelta(days=self.days), self.first - timedelta(days=1))

    def has(self, day: Any) -> ColumnElement[bool]:
        within: ColumnElement[bool] = day.between(self.first, self.last)
        return within


Periods = tuple[Period, Period]


@dataclass(frozen=True)
class Selection(Period):
    """Days, the keys to group by, and the values that other keys must have.

    `among` are the values that the first key may have. `before` is a period to compare with: a
    group that has calls only there is a group, too.
    """

    keys: Sequence[str] = (DAY,)
    only: Mapping[str, str] = field(default_factory=dict)
    among: Collection[str] | None = None
    before: Period | None = None
    is_brief: bool = False

    @property
    def _labels(self) -> set[str]:
        return {*self.keys, *self.only} - {DAY}

    @property
    def _table(self) -> Any:
        """Return the smallest table that has these sums."""
        if not self.is_brief or len(self._labels) > 1:
            return SpendRow
        return SpendGroup if self._labels else SpendDay

    def column(self, name: str) -> Any:
        of_label = self._table is SpendGroup and name != DAY
        return SpendGroup.value if of_label else getattr(self._table, name)

    def sums(self) -> dict[str, ColumnElement[Any]]:
        """Return the sums of a group by name."""
        table, names = self._table, _BRIEF if self.is_brief else Sums._fields
        columns: dict[str, Any] = {name: func.sum(getattr(table, name)) for name in names}
        if self.before is not None:
            now, before = self.has(table.day), self.before.has(table.day)
            columns = {name: total.filter(now) for name, total in columns.items()}
            for name, source in _PREVIOUS.items():
                columns[name] = func.sum(getattr(table, source)).filter(before)
        return {name: func.coalesce(total, 0) for name, total in columns.items()}

    def matches(self, account_id: str) -> list[ColumnElement[bool]]:
        table = self._table
        days = self.has(table.day)
        if self.before is not None:
            days = or_(days, self.before.has(table.day))
        found = [table.account_id == account_id, days]
        found += [self.column(name) == value for name, value in self.only.items()]
        if table is SpendGroup:
            found.append(SpendGroup.label.in_(self._labels))
        if self.among is not None:
            found.append(self.column(self.keys[0]).in_(self.among))
        return found

    def group(self, account_id: str, more: Iterable[ColumnElement[Any]] = ()) -> Select[Any]:
        """Return the groups with their keys and sums."""
        keys = [self.column(name).label(name) for name in self.keys]
        sums = [total.label(name) for name, total in self.sums().items()]
        query = select(*keys, *sums, *more).where(*self.matches(account_id))
        return query.group_by(*(self.column(name) for name in self.keys))


def sum_spend(
    session: Executor,
    account_id: str,
    wanted: Selection,
    *,
    order: str = BY_KEY,
    limit: int | None = None,
    after: Key | None = None,
) -> Spend:
    """Return the groups of a selection, after a key, with the totals of all groups.

    Both come from one statement, so they always agree.
    """
    sums, keys = wanted.sums(), wanted.keys
    every = {"group_count": func.count().over()}
    every |= {f"all_{name}": func.sum(total).over() for name, total in sums.items()}
    query = wanted.group(account_id, (each.label(name) for name, each in every.items()))
    names = [_position(name, wanted.column(name)) for name in keys]
    if order == BY_COST:
        ranks = [
            sums[name].desc() for name in ("cost_usd", "previous_usd", "calls") if name in sums
        ]
        query = query.order_by(*ranks, *names)
    elif order == BY_CHANGE and wanted.before is not None:
        change = sums["cost_usd"] / wanted.days - sums["previous_usd"] / wanted.before.days
        query = query.order_by(func.abs(change).desc(), *names)
    elif after is None:
        query = query.order_by(*names)
    else:
        found = query.subquery()
        names = [_position(name, found.c[name]) for name in keys]
        query = select(found).where(tuple_(*names) > tuple_(*after)).order_by(*names)
    rows = session.execute(query.limit(limit)).all()
    if not rows and after is not None:
        return sum_spend(session, account_id, replace(wanted, keys=()))._replace(groups=())
    totals = _line(rows[0]._mapping if rows else {}, (), "all_")
    return Spend(
        [_line(row._mapping, keys) for row in rows],
        rows[0].group_count if rows else 0,
        *totals[1:],
    )


def iter_spend(session: Session, account_id: str, wanted: Selection) -> Iterator[Line]:
    """Yield all groups in the order of the keys, in bounded memory."""
    query = wanted.group(account_id)
    query = query.order_by(*(_position(name, wanted.column(name)) for name in wanted.keys))
    for row in session.execute(query, execution_options={"yield_per": _BATCH}):
        yield _line(row._mapping, wanted.keys)


def has_more_lines(session: Session, account_id: str, wanted: Selection, number: int) -> bool:
    """Check whether more stored lines than this number have the spend of the selection."""
    some = select(SpendRow.id).where(*wanted.matches(account_id)).limit(number + 1)
    return (session.scalar(select(func.count()).select_from(some.subquery())) or 0) > number


def sum_days(
    session: Executor, account_id: str, days: tuple[date, date], only: Mapping[str, str] = _ALL
) -> UsdByDay:
    """Return the dollars of each day, of calls with these labels."""
    wanted = Selection(*days, only=only, is_brief=True)
    spend = sum_spend(session, account_id, wanted)
    return {line.value: line.sums.cost_usd for line in spend.groups}


def sum_days_of(
    session: Executor, account_id: str, wanted: Selection, values: Collection[str]
) -> Mapping[str, UsdByDay]:
    """Return the dollars by day of some groups of the selection's first key."""
    found: dict[str, dict[date, Decimal]] = {value: {} for value in values}
    by_day = replace(wanted, keys=(wanted.keys[0], DAY), among=values, is_brief=True, before=None)
    for line in sum_spend(session, account_id, by_day).groups if values else ():
        value, day = cast("tuple[str, date]", line.key)
        found[value][day] = line.sums.cost_usd
    return found


def find_last_day(
    session: Executor,
    account_id: str,
    today: date,
    only: Mapping[str, str] = _ALL,
    table: type[SpendRow | PlanRow] = SpendRow,
) -> date | None:
    """Return the last day until today with calls that have these labels, if there are any."""
    labels = [getattr(table, name) == value for name, value in only.items()]
    query = select(table.day).where(table.account_id == account_id, table.day <= today, *labels)
    return session.scalars(query.order_by(table.day.desc()).limit(1)).first()


def _position(name: str, column: Any) -> ColumnElement[Any]:
    """Return a key in an order that is the same in every database: bytes for labels."""
    return column if name == DAY else collate(column, "C")


def _line(row: Mapping[Any, Any], keys: Sequence[str], prefix: str = "") -> Line:
    """Return the line of a row; PostgreSQL sums large integers as decimals."""
    sums: dict[str, Any] = {
        name: int(row[prefix + name]) if isinstance(default, int) else Decimal(row[prefix + name])
        for name, default in Sums()._asdict().items()
        if prefix + name in row
    }
    previous = [row.get(prefix + name) or 0 for name in _PREVIOUS]
    key = tuple(row[name] for name in keys)
    return Line(key, Sums(**sums), int(previous[0]), Decimal(previous[1]))
