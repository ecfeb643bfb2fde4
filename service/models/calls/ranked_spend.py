"""Queries of the page about spend: groups by cost, compared with the period before, and days."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Select,
    bindparam,
    case,
    collate,
    func,
    select,
    true,
)
from sqlalchemy.orm import Session

from service.models.calls.daily_spend import SpendRow
from service.models.calls.spend import Selection, Sums

_PREVIOUS: Final = ("previous_calls", "previous_usd")
_SUMS: Final = (*Sums._fields, *_PREVIOUS)
_BOTH_PERIODS: Final = ("earliest", "last")


class Group(NamedTuple):
    """The sums of one route, model, provider or environment, and its cost in the period before."""

    value: str
    sums: Sums
    previous_usd: Decimal


class Ranking(NamedTuple):
    """The most expensive groups, the number of all groups, and the totals of both periods."""

    groups: Sequence[Group]
    group_count: int
    totals: Sums
    previous_calls: int
    previous_usd: Decimal


def rank_spend(session: Session, account_id: str, wanted: Selection, *, limit: int) -> Ranking:
    """Return the groups of the selection's only key, most expensive first, and all totals.

    A group of the period before that has no calls any more is a group, too.
    """
    earliest, _ = wanted.previous
    values = {"account_id": account_id, "earliest": earliest, "most": limit}
    days = {"first": wanted.first, "last": wanted.last}
    only = {_parameter(name): value for name, value in wanted.only.items()}
    query = _ranked(wanted.keys[0], tuple(sorted(wanted.only)))
    return _ranking(session.execute(query, {**values, **days, **only}).all(), len(_SUMS))


@cache
def _ranked(name: str, only: tuple[str, ...]) -> Select[*tuple[Any, ...]]:
    """Return the query of `rank_spend`; building it takes longer than running it."""
    groups = _compare(name, only)
    sums = (func.coalesce(func.sum(groups.c[each]), 0) for each in _SUMS)
    totals = select(func.count().label("groups"), *sums).select_from(groups).cte("totals")
    label = collate(groups.c[name], "C")
    ranked = groups.c.cost_usd.desc(), groups.c.previous_usd.desc(), groups.c.calls.desc(), label
    rank = func.row_number().over(order_by=ranked).label("rank")
    top = select(rank, groups).order_by(*ranked).limit(bindparam("most")).subquery()
    query = select(totals, top).join_from(totals, top, true(), isouter=True)
    return query.order_by(top.c.rank)


def _compare(name: str, only: Iterable[str]) -> CTE:
    """Return the sums of each group in the range, and those of the period before it."""
    key, is_now = getattr(SpendRow, name), SpendRow.day >= bindparam("first")
    now = [_sum(each, is_now).label(each) for each in Sums._fields]
    before = [_sum(each, ~is_now) for each in ("calls", "cost_usd")]
    query = select(
        key, *now, *(each.label(name) for each, name in zip(before, _PREVIOUS, strict=True))
    )
    matches = _matches(bindparam("account_id"), _values(only), *map(bindparam, _BOTH_PERIODS))
    return query.where(*matches).group_by(key).cte("groups")


def _values(only: Iterable[str]) -> Mapping[str, Any]:
    return {name: bindparam(_parameter(name)) for name in only}


def _parameter(name: str) -> str:
    return f"only_{name}"


def _ranking(rows: Sequence[Any], width: int) -> Ranking:
    count, *totals = rows[0][: width + 1]
    groups = [_group(row[width + 1 :]) for row in rows if row.rank is not None]
    return Ranking(groups, count, _sums(totals), int(totals[-2]), Decimal(totals[-1]))


def _group(values: Sequence[Any]) -> Group:
    _rank, value, *sums = values
    return Group(value, _sums(sums), Decimal(sums[-1]))


def _sums(values: Sequence[Any]) -> Sums:
    *counts, cost, listed = values[: len(Sums._fields)]
    return Sums._make((*map(int, counts), Decimal(cost), Decimal(listed)))


def spend_by_day(
    session: Session, account_id: str, wanted: Selection, shown: Sequence[str]
) -> Mapping[date, Mapping[str | None, Decimal]]:
    """Return the cost of each day by the shown groups; None has that of all others together."""
    key = getattr(SpendRow, wanted.keys[0])
    series = case((key.in_(shown), key), else_=None).label("series")
    query = select(SpendRow.day, series, func.sum(SpendRow.cost_usd))
    matches = _matches(account_id, wanted.only, wanted.first, wanted.last)
    found: dict[date, dict[str | None, Decimal]] = {}
    for day, value, cost in session.execute(query.where(*matches).group_by(SpendRow.day, series)):
        found.setdefault(day, {})[value] = cost
    return found


def find_last_day(
    session: Session | Connection,
    account_id: str,
    today: date,
    only: Mapping[str, str] = MappingProxyType({}),
) -> date | None:
    """Return the last day until today with calls that have these labels, if there are any."""
    labels = {_parameter(name): value for name, value in only.items()}
    query = _last_day(tuple(sorted(only)))
    return session.scalars(query, {"account_id": account_id, "today": today, **labels}).first()


@cache
def _last_day(only: tuple[str, ...]) -> Select[date]:
    same = [getattr(SpendRow, name) == value for name, value in _values(only).items()]
    own = (SpendRow.account_id == bindparam("account_id"), SpendRow.day <= bindparam("today"))
    query = select(SpendRow.day).where(*own, *same)
    return query.order_by(SpendRow.day.desc()).limit(1)


def _sum(name: str, condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(getattr(SpendRow, name)).filter(condition), 0)


def _matches(account_id: Any, only: Mapping[str, Any], first: Any, last: Any) -> list[Any]:
    """Match an account's spend; each value may be a parameter."""
    return [
        SpendRow.account_id == account_id,
        SpendRow.day.between(first, last),
        *(getattr(SpendRow, name) == value for name, value in only.items()),
    ]
