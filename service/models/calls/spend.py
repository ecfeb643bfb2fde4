"""Queries of an account's spend: sums by up to three keys over a range of days.

They read `daily_spend` only, so they take as long for a billion calls as for a thousand. Which
call files the rows belong to does not matter: the sums are those of the account.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    collate,
    func,
    literal,
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
    groups = _group(account_id, wanted).cte("groups")
    totals = select(*(func.coalesce(func.sum(groups.c[name]), 0) for name in Sums._fields)).cte()
    order = _order(groups.c, wanted)
    listed = select(groups)
    if after is not None:
        listed = listed.where(tuple_(*order) > tuple_(*map(literal, after)))
    page = listed.order_by(*order).limit(limit).subquery()
    query = select(page, *totals.c).join_from(totals, page, true(), isouter=True)
    rows = session.execute(query.order_by(*_order(page.c, wanted))).all()
    width = len(wanted.keys)
    lines = [_line(row, width) for row in rows if row[width] is not None]
    return lines, _sums(rows[0][-len(Sums._fields) :])


def iter_spend(session: Session, account_id: str, wanted: Selection) -> Iterator[Line]:
    """Yield all groups in the order of the keys, in bounded memory."""
    groups = _group(account_id, wanted).subquery()
    query = select(groups).order_by(*_order(groups.c, wanted))
    options = {"yield_per": _BATCH}
    for row in session.execute(query, execution_options=options):
        yield _line(row, len(wanted.keys))


def sum_spend(session: Session, account_id: str, wanted: Selection) -> Sums:
    """Return the totals of the range."""
    query = select(*_summed()).where(*_matches(account_id, wanted))
    return _sums(session.execute(query).one())


def _group(account_id: str, wanted: Selection) -> Select[Any]:
    keys = [getattr(SpendRow, name) for name in wanted.keys]
    return select(*keys, *_summed()).where(*_matches(account_id, wanted)).group_by(*keys)


def _summed() -> list[ColumnElement[Any]]:
    """Return the sums of `Sums`, under its names; 0 without any row."""
    return [
        func.coalesce(func.sum(getattr(SpendRow, name)), 0).label(name) for name in Sums._fields
    ]


def _matches(account_id: str, wanted: Selection) -> list[ColumnElement[bool]]:
    only = [getattr(SpendRow, name) == value for name, value in wanted.only.items()]
    days = SpendRow.day.between(wanted.first, wanted.last)
    return [SpendRow.account_id == account_id, days, *only]


def _order(columns: Any, wanted: Selection) -> list[ColumnElement[Any]]:
    """Return the keys in an order that is the same in every database: bytes for labels."""
    return [columns[name] if name == DAY else collate(columns[name], "C") for name in wanted.keys]


def _line(row: Row[Any], width: int) -> Line:
    return Line(tuple(row[:width]), _sums(row[width : width + len(Sums._fields)]))


def _sums(values: Sequence[Any]) -> Sums:
    """Return the sums of a row; PostgreSQL sums large integers as decimals."""
    *counts, cost, listed = values
    return Sums._make((*map(int, counts), Decimal(cost), Decimal(listed)))
