"""Sums of an account's spend: by up to three keys, over a range of days, of calls with some labels.

They read `daily_spend`, or one of its two summaries that has all that is asked for, so they take as
long for a billion calls as for a thousand. Which call files the rows belong to does not matter.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Date,
    Integer,
    Numeric,
    Select,
    Subquery,
    bindparam,
    collate,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.orm import Session

from service.models.base import Executor
from service.models.calls.daily_spend import (
    PlanRow,
    SpendDay,
    SpendGroup,
    SpendRow,
    day_of,
    within_days,
)

DAY: Final = "day"
KEYS: Final = (DAY, "route", "model", "provider", "environment")
MAX_KEYS: Final = 3
MAX_DAYS: Final = 400
# Orders of groups: by their keys, by their cost, and by how much their cost per day has changed.
BY_KEY, BY_COST, BY_CHANGE = "key", "cost", "change"
# Orders by one sum, or by the name of the first key. A leading "-" turns an order around.
BY_SUM: Final = {"calls": "calls", "input": "prompt_tokens", "output": "completion_tokens"}
BY_NAME: Final = "name"
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
    """A range of days, both inclusive."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def previous(self) -> "Period":
        """Return the period before, of the same length."""
        return Period(self.first - timedelta(days=self.days), self.first - timedelta(days=1))


Periods = tuple[Period, Period]


@dataclass(frozen=True)
class Selection(Period):
    """Days, the keys to group by, and the values that other keys must have.

    `among` are the values that the first key may have. `before` is a period to compare with: a
    group that has calls only there is a group, too, unless it `must_be_current`.
    """

    keys: Sequence[str] = (DAY,)
    only: Mapping[str, str] = field(default_factory=dict)
    among: Collection[str] | None = None
    search: str = ""  # what the first key that isn't the day contains
    before: Period | None = None
    must_be_current: bool = False
    is_brief: bool = False
    is_local: bool = False  # whether its days are those of the account's zone, or UTC

    @property
    def shape(self) -> "Shape":
        has_values = (self.among is not None, bool(self.search), self.before is not None)
        flags = (*has_values, self.must_be_current, self.is_brief, self.is_local)
        return Shape(tuple(self.keys), tuple(sorted(self.only)), *flags)

    def values(self, account_id: str) -> dict[str, Any]:
        """Return the values of the parameters of a query of this shape."""
        before = self.before or self
        return {
            "account_id": account_id,
            **{"first": self.first, "last": self.last, "days": self.days, "among": self.among},
            **{"earlier": before.first, "latest": before.last, "days_before": before.days},
            "search": self.search,
            **{f"only_{name}": value for name, value in self.only.items()},
        }


class Shape(NamedTuple):
    """What the query of a selection depends on, beside its parameters."""

    keys: tuple[str, ...]
    only: tuple[str, ...]
    has_among: bool
    has_search: bool
    has_before: bool
    must_be_current: bool
    is_brief: bool
    is_local: bool

    @property
    def _label(self) -> str:
        """Return the only label of a selection, or "" if it has none or several."""
        labels = {*self.keys, *self.only} - {DAY}
        return labels.pop() if len(labels) == 1 else ""

    @property
    def _table(self) -> Any:
        """Return the smallest table that has these sums."""
        if self.is_brief and {*self.keys, *self.only} <= {DAY}:
            return SpendDay
        return SpendGroup if self.is_brief and self._label else SpendRow

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the sums, in their order."""
        sums = _BRIEF if self.is_brief else Sums._fields
        return (*sums, *_PREVIOUS) if self.has_before else sums

    def read(self, key: Sequence[Any], values: Sequence[Any]) -> Line:
        """Return the line of a row; PostgreSQL sums large integers as decimals."""
        found = {
            name: Decimal(value) if name.endswith("_usd") else int(value)
            for name, value in zip(self.names, values, strict=True)
        }
        previous = [found.pop(name) for name in _PREVIOUS if name in found]
        return Line(tuple(key), Sums(**found), *previous)  # type: ignore[arg-type]

    def column(self, name: str) -> Any:
        """Return a key of what is summed: the table's rows, or those of both periods."""
        if self.has_before:
            return _both_periods(self).c[name]
        if name == DAY:
            return day_of(self._table, is_local=self.is_local)
        return SpendGroup.value if self._table is SpendGroup else getattr(self._table, name)

    def sums(self) -> dict[str, ColumnElement[Any]]:
        """Return the sums of a group by name."""
        rows = _both_periods(self).c if self.has_before else self._table
        return {name: func.coalesce(func.sum(getattr(rows, name)), 0) for name in self.names}

    def matches(self, first: str = "first", last: str = "last") -> list[ColumnElement[bool]]:
        """Match the rows of the days between two parameters."""
        table = self._table
        ends = (bindparam(name, type_=Date) for name in (first, last))
        within = within_days(table, *ends, is_local=self.is_local)
        found = [table.account_id == bindparam("account_id"), within]
        found += [self.column(name) == bindparam(f"only_{name}") for name in self.only]
        if table is SpendGroup:
            found.append(SpendGroup.label == self._label)
        if self.has_among:
            among: Any = bindparam("among", expanding=True)
            found.append(self.column(self.keys[0]).in_(among))
        if self.has_search:
            # Unlike LIKE, it has no signs with a meaning of their own.
            name = func.lower(self.column(next(each for each in self.keys if each != DAY)))
            found.append(func.strpos(name, func.lower(bindparam("search"))) > 0)
        return found

    def group(self, *more: ColumnElement[Any]) -> Select[Any]:
        """Return the groups with their keys and sums."""
        keys = [self.column(name).label(name) for name in self.keys]
        sums = self.sums()
        labeled = [total.label(name) for name, total in sums.items()]
        query = select(*keys, *labeled, *more)
        if not self.has_before:
            query = query.where(*self.matches())
        if self.must_be_current:
            # What a provider reports and no call covers has a cost without calls.
            query = query.having(or_(sums["calls"] != 0, sums["cost_usd"] != 0))
        return query.group_by(*(self.column(name) for name in self.keys))

    def positions(self, columns: Any = None) -> list[ColumnElement[Any]]:
        """Return the keys in an order that is the same in every database: bytes for labels."""
        found = [(name, columns[name] if columns else self.column(name)) for name in self.keys]
        return [column if name == DAY else collate(column, "C") for name, column in found]


@cache
def _both_periods(shape: Shape) -> Subquery:
    """Return the groups of both periods, each summed alone, from the smallest table that has them.

    One sum of all rows with a condition for each column takes five times as long.
    """
    now = shape._replace(has_before=False, must_be_current=False)
    before = now._replace(is_brief=True)
    none, sums = literal_column("0", Numeric), before.sums()
    current = now.group(*(none.label(name) for name in _PREVIOUS))
    earlier = select(
        *(before.column(name).label(name) for name in shape.keys),
        *(none.label(name) for name in now.names),
        *(sums[source].label(name) for name, source in _PREVIOUS.items()),
    )
    earlier = earlier.where(*before.matches("earlier", "latest"))
    earlier = earlier.group_by(*(before.column(name) for name in shape.keys))
    return union_all(current, earlier).subquery()


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
    keys = wanted.keys
    cursor = {f"after_{name}": value for name, value in zip(keys, after or (), strict=False)}
    given = {**wanted.values(account_id), **cursor, "limit": limit}
    query = _ranked(wanted.shape, order, has_after=after is not None)
    rows = session.execute(query, given).all()
    if not rows and after is not None:
        return sum_spend(session, account_id, replace(wanted, keys=()))._replace(groups=())
    if not rows:
        return Spend((), 0, *Line((), Sums())[1:])
    read, width = wanted.shape.read, len(keys)
    end = width + len(wanted.shape.names)
    groups = [read(row[:width], row[width:end]) for row in rows]
    return Spend(groups, rows[0][end], *read((), rows[0][end + 1 :])[1:])


# Without it, a page of spend takes half as long again, and a comparison twice as long.
@cache
def _ranked(shape: Shape, order: str, *, has_after: bool) -> Select[Any]:
    """Return the query of `sum_spend`."""
    sums, names = shape.sums(), shape.positions()
    every = {"group_count": func.count().over()}
    every |= {f"all_{name}": func.sum(total).over() for name, total in sums.items()}
    query = shape.group(*(each.label(name) for name, each in every.items()))
    if order == BY_COST:
        ranks = ("cost_usd", "previous_usd", "calls")
        query = query.order_by(*(sums[each].desc() for each in ranks if each in sums), *names)
    elif order == BY_CHANGE:
        now = sums["cost_usd"] / bindparam("days", type_=Integer)
        before = sums["previous_usd"] / bindparam("days_before", type_=Integer)
        query = query.order_by(func.abs(now - before).desc(), *names)
    elif order.removeprefix("-") in (*_SORTED, BY_NAME):
        query = query.order_by(_sorted_by(order, sums, names), *names)
    elif has_after:
        found = query.subquery()
        names = shape.positions(found.c)
        after = (bindparam(f"after_{name}", type_=found.c[name].type) for name in shape.keys)
        query = select(found).where(tuple_(*names) > tuple_(*after)).order_by(*names)
    else:
        query = query.order_by(*names)
    return query.limit(bindparam("limit", type_=Integer))


_SORTED: Final = {**BY_SUM, "spend": "cost_usd", "before": "previous_usd"}


def _sorted_by(
    order: str, sums: Mapping[str, ColumnElement[Any]], names: Sequence[ColumnElement[Any]]
) -> ColumnElement[Any]:
    """Return what to sort by: sums fall and names rise, unless the order is turned around."""
    name, is_turned = order.removeprefix("-"), order.startswith("-")
    if name == BY_NAME:
        return names[0].desc() if is_turned else names[0].asc()
    by = sums[_SORTED[name]]
    if name == "before":  # how much more than before
        by = sums["cost_usd"] - by
    return by.asc() if is_turned else by.desc()


def find_names(
    session: Executor, account_id: str, label: str, text: str, limit: int
) -> Sequence[str]:
    """Return the most expensive values of a label that contain a text, in any case."""
    query = select(SpendGroup.value).where(
        SpendGroup.account_id == account_id,
        SpendGroup.label == label,
        SpendGroup.value != "",
        SpendGroup.value.icontains(text, autoescape=True),
    )
    ranked = query.group_by(SpendGroup.value).order_by(func.sum(SpendGroup.cost_usd).desc())
    return session.scalars(ranked.limit(limit)).all()


def iter_spend(session: Executor, account_id: str, wanted: Selection) -> Iterator[Line]:
    """Yield all groups in the order of the keys, in bounded memory."""
    query, batched = wanted.shape.group(), {"yield_per": _BATCH}
    query = query.order_by(*wanted.shape.positions())
    for row in session.execute(query, wanted.values(account_id), execution_options=batched):
        yield wanted.shape.read(row[: len(wanted.keys)], row[len(wanted.keys) :])


def has_more_lines(session: Session, account_id: str, wanted: Selection, number: int) -> bool:
    """Check whether more stored lines than this number have the spend of the selection."""
    some = select(SpendRow.id).where(*wanted.shape.matches()).limit(number + 1).subquery()
    count = session.scalar(select(func.count()).select_from(some), wanted.values(account_id))
    return (count or 0) > number


def sum_days(
    session: Executor,
    account_id: str,
    days: tuple[date, date],
    only: Mapping[str, str] = _ALL,
    *,
    is_local: bool = False,
) -> UsdByDay:
    """Return the dollars of each day, of calls with these labels."""
    wanted = Selection(*days, only=only, is_brief=True, is_local=is_local)
    rows = session.execute(_plain(wanted.shape), wanted.values(account_id))
    return {row.day: row.cost_usd for row in rows}


def sum_days_of(
    session: Executor, account_id: str, wanted: Selection, values: Collection[str]
) -> Mapping[str, UsdByDay]:
    """Return the dollars by day of some groups of the selection's first key."""
    found: dict[str, dict[date, Decimal]] = {value: {} for value in values}
    key = wanted.keys[0]
    by_day = replace(wanted, keys=(key, DAY), among=values, is_brief=True, before=None)
    if values:
        for row in session.execute(_plain(by_day.shape), by_day.values(account_id)):
            found[getattr(row, key)][row.day] = row.cost_usd
    return found


@cache
def _plain(shape: Shape) -> Select[Any]:
    """Return the query of all groups, without the totals of `_ranked`, which take longer."""
    return shape.group().order_by(*shape.positions())


def find_last_day(
    session: Executor,
    account_id: str,
    today: date,
    only: Mapping[str, str] = _ALL,
    table: type[SpendRow | PlanRow] = SpendRow,
    *,
    is_local: bool = False,
) -> date | None:
    """Return the last day until today with calls that have these labels, if there are any."""
    labels = [getattr(table, name) == value for name, value in only.items()]
    day = day_of(table, is_local=is_local)
    query = select(day).where(table.account_id == account_id, day <= today, *labels)
    order: list[ColumnElement[Any]] = [table.day.desc()]
    if is_local:
        query = query.where(table.day <= today + timedelta(days=1))
        order.append(table.day_shift.desc())
    found: date | None = session.scalars(query.order_by(*order).limit(1)).first()
    return found
