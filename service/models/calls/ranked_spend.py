"""Queries of the page about spend: groups by cost, compared with the period before, and days."""

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, case, collate, func, select, true
from sqlalchemy.orm import Session

from service.models.calls.daily_spend import SpendRow
from service.models.calls.spend import Selection, Sums

_PREVIOUS: Final = ("previous_calls", "previous_usd")


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
    name, names = wanted.keys[0], (*Sums._fields, *_PREVIOUS)
    groups = _compare(account_id, wanted)
    sums = (func.coalesce(func.sum(groups.c[each]), 0) for each in names)
    totals = select(func.count().label("groups"), *sums).select_from(groups).cte("totals")
    label = collate(groups.c[name], "C")
    ranked = groups.c.cost_usd.desc(), groups.c.previous_usd.desc(), groups.c.calls.desc(), label
    rank = func.row_number().over(order_by=ranked).label("rank")
    top = select(rank, groups).order_by(*ranked).limit(limit).subquery()
    query = select(totals, top).join_from(totals, top, true(), isouter=True)
    rows = session.execute(query.order_by(top.c.rank)).all()
    return _ranking(rows, len(names))


def _compare(account_id: str, wanted: Selection) -> Any:
    """Return the sums of each group in the range, and those of the period before it."""
    key, is_now = getattr(SpendRow, wanted.keys[0]), SpendRow.day >= wanted.first
    now = [_sum(name, is_now).label(name) for name in Sums._fields]
    before = [_sum(name, ~is_now) for name in ("calls", "cost_usd")]
    earliest, _ = wanted.previous
    query = select(
        key, *now, *(each.label(name) for each, name in zip(before, _PREVIOUS, strict=True))
    )
    matches = _matches(account_id, wanted.only, earliest, wanted.last)
    return query.where(*matches).group_by(key).cte("groups")


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
    session: Session, account_id: str, only: Mapping[str, str] | None = None
) -> date | None:
    """Return the last day with calls that have these labels, if the account has any."""
    same = [getattr(SpendRow, name) == value for name, value in (only or {}).items()]
    query = select(SpendRow.day).where(SpendRow.account_id == account_id, *same)
    return session.scalars(query.order_by(SpendRow.day.desc()).limit(1)).first()


def _sum(name: str, condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(getattr(SpendRow, name)).filter(condition), 0)


def _matches(
    account_id: str, only: Mapping[str, str], first: date, last: date
) -> list[ColumnElement[bool]]:
    return [
        SpendRow.account_id == account_id,
        SpendRow.day.between(first, last),
        *(getattr(SpendRow, name) == value for name, value in only.items()),
    ]
