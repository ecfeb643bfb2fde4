"""Queries of an account's spend: sums by up to three keys over a range of days.

They read `daily_spend` only, so they take as long for a billion calls as for a thousand. Which
call files the rows belong to does not matter: the sums are those of the account.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    bindparam,
    collate,
    func,
    select,
    true,
    tuple_,
)
from sqlalchemy.orm import Session

from service.models.calls.daily_spend import SpendRow

DAY: Final = "day"
KEYS: Final = (DAY, "route", "model", "provider", "environment")
MAX_KEYS: Final = 3
MAX_DAYS: Final = 400
_BATCH: Final = 1_000

Key = tuple[date | str, ...]


class Sums(NamedTuple):
    """The sums of some calls. Calls without a price add to the counts and not to the dollars."""

    calls: int
    unpriced_calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    cost_usd: Decimal
    list_usd: Decimal


class Line(NamedTuple):
    """The sums of one group, with a value for each key that the selection names."""

    key: Key
    sums: Sums


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A range of days, the keys to group by, and the values that other keys must have."""

    first: date
    last: date
    keys: Sequence[str] = (DAY,)
    only: Mapping[str, str] = field(default_factory=dict)

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def previous(self) -> tuple[date, date]:
        """Return the first and last day of the period before, of the same length."""
        return self.first - timedelta(days=self.days), self.first - timedelta(days=1)


def page_of_spend(
    session: Session, account_id: str, wanted: Selection, *, limit: int, after: Key | None = None
) -> tuple[list[Line], Sums]:
    """Return the groups after a key, in the order of the keys, and the totals of the whole range.

    Both come from one statement, so they always agree.
    """
    query = _page(tuple(wanted.keys), tuple(wanted.only), is_first=after is None)
    cursor = {f"after_{name}": value for name, value in zip(wanted.keys, after or (), strict=False)}
    given = {**_values(account_id, wanted), **cursor, "limit": limit}
    rows = session.connection().execute(query, given).all()
    width = len(wanted.keys)
    lines = [_line(row, width) for row in rows if row[width] is not None]
    return lines, _sums(rows[0][-len(Sums._fields) :])


@cache
def _page(keys: tuple[str, ...], only: tuple[str, ...], *, is_first: bool) -> Select[Any]:
    """Return the query of `page_of_spend`; building it takes longer than reading its rows."""
    groups = _group(keys, only).cte("groups")
    totals = select(*(func.coalesce(func.sum(groups.c[name]), 0) for name in Sums._fields)).cte()
    order = _order(groups.c, keys)
    listed = select(groups)
    if not is_first:
        after = (bindparam(f"after_{name}", type_=groups.c[name].type) for name in keys)
        listed = listed.where(tuple_(*order) > tuple_(*after))
    page = listed.order_by(*order).limit(bindparam("limit")).subquery()
    query = select(page, *totals.c).join_from(totals, page, true(), isouter=True)
    return query.order_by(*_order(page.c, keys))


def iter_spend(session: Session, account_id: str, wanted: Selection) -> Iterator[Line]:
    """Yield all groups in the order of the keys, in bounded memory."""
    groups = _group(wanted.keys, wanted.only).subquery()
    query = select(groups).order_by(*_order(groups.c, wanted.keys))
    values = _values(account_id, wanted)
    for row in session.execute(query, values, execution_options={"yield_per": _BATCH}):
        yield _line(row, len(wanted.keys))


def has_more_lines(session: Session, account_id: str, wanted: Selection, number: int) -> bool:
    """Check whether more stored lines than this number have the spend of the selection."""
    some = select(SpendRow.id).where(*_matches(wanted.only)).limit(number + 1).subquery()
    count = session.scalar(select(func.count()).select_from(some), _values(account_id, wanted))
    return (count or 0) > number


def sum_spend(session: Session, account_id: str, wanted: Selection) -> Sums:
    """Return the totals of the range."""
    query = select(*_summed()).where(*_matches(wanted.only))
    return _sums(session.execute(query, _values(account_id, wanted)).one())


def _group(keys: Iterable[str], only: Iterable[str]) -> Select[Any]:
    columns = [getattr(SpendRow, name) for name in keys]
    return select(*columns, *_summed()).where(*_matches(only)).group_by(*columns)


def _summed() -> list[ColumnElement[Any]]:
    """Return the sums of `Sums`, under its names; 0 without any row."""
    return [
        func.coalesce(func.sum(getattr(SpendRow, name)), 0).label(name) for name in Sums._fields
    ]


def _matches(only: Iterable[str]) -> list[ColumnElement[bool]]:
    """Match the rows of a selection, whose values `_values` returns."""
    own = [getattr(SpendRow, name) == bindparam(f"only_{name}") for name in only]
    days = SpendRow.day.between(bindparam("first"), bindparam("last"))
    return [SpendRow.account_id == bindparam("account_id"), days, *own]


def _values(account_id: str, wanted: Selection) -> dict[str, Any]:
    only = {f"only_{name}": value for name, value in wanted.only.items()}
    return {"account_id": account_id, "first": wanted.first, "last": wanted.last, **only}


def _order(columns: Any, keys: Iterable[str]) -> list[ColumnElement[Any]]:
    """Return the keys in an order that is the same in every database: bytes for labels."""
    return [columns[name] if name == DAY else collate(columns[name], "C") for name in keys]


def _line(row: Row[Any], width: int) -> Line:
    return Line(tuple(row[:width]), _sums(row[width : width + len(Sums._fields)]))


def _sums(values: Sequence[Any]) -> Sums:
    """Return the sums of a row; PostgreSQL sums large integers as decimals."""
    *counts, cost, listed = values
    return Sums._make((*map(int, counts), Decimal(cost), Decimal(listed)))
