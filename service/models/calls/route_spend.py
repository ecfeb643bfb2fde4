"""Spend of routes for the dashboard: the most expensive ones, their days, and their savings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, case, func, select, true
from sqlalchemy.orm import Session

from service.models.calls.account_findings import UNRESOLVED, AccountFinding
from service.models.calls.spend import Selection
from service.models.calls.spend_by_day import (
    GroupedSpend,
    group_spend,
    sum_days_of_values,
    sum_values,
)

# The labels of calls that findings have, too.
FINDING_LABELS: Final = ("route", "provider", "model")
# Without a route, the route of a finding is its model.
OWN_ROUTE: Final = case(
    (AccountFinding.route == AccountFinding.model, ""), else_=AccountFinding.route
)

DaysOf = Mapping[str, Mapping[date, Decimal]]


class RouteSpend(NamedTuple):
    """The calls of a route, or of one group of any other kind, and their dollars."""

    value: str
    calls: int
    cost_usd: Decimal


@dataclass(frozen=True)
class Ranked:
    """The most expensive groups of a range, how many there are, and the totals of all."""

    groups: Sequence[RouteSpend]
    count: int
    calls: int
    cost_usd: Decimal


def rank_routes(session: Session, account_id: str, wanted: Selection, limit: int) -> Ranked:
    """Return the most expensive groups of the selection's only key, and all totals."""
    spend = _read(account_id, wanted)
    calls, cost = func.sum(spend.calls), func.sum(spend.cost_usd)
    groups = select(spend.value.label("key"), calls.label("calls"), cost.label("cost_usd"))
    found = groups.where(*spend.matches).group_by(spend.value).cte("groups")
    sums = (func.count(), func.sum(found.c.calls), func.sum(found.c.cost_usd))
    totals = select(*(each.label(f"total_{at}") for at, each in enumerate(sums))).cte("totals")
    ranked = (found.c.cost_usd.desc(), found.c.calls.desc(), found.c.key)
    top = select(found).order_by(*ranked).limit(limit).subquery()
    query = select(totals, top).join_from(totals, top, true(), isouter=True)
    order = (top.c.cost_usd.desc(), top.c.calls.desc(), top.c.key)
    rows = session.execute(query.order_by(*order)).all()
    count, all_calls, all_cost = rows[0][:3]
    routes = [RouteSpend(row[3], int(row[4]), row[5]) for row in rows if row[3] is not None]
    return Ranked(routes, count, int(all_calls or 0), all_cost or Decimal(0))


def sum_days_of(
    session: Session, account_id: str, wanted: Selection, values: Collection[str]
) -> DaysOf:
    """Return the dollars by day of some groups of the selection's only key."""
    return sum_days_of_values(session, _read(account_id, wanted), values)


def sum_before(
    session: Session, account_id: str, wanted: Selection, values: Collection[str]
) -> Mapping[str, Decimal]:
    """Return the dollars of some groups in the period before, of the same length."""
    first, last = wanted.previous
    return sum_values(session, _read(account_id, replace(wanted, first=first, last=last)), values)


def _read(account_id: str, wanted: Selection) -> GroupedSpend:
    return group_spend(account_id, wanted.keys[0], (wanted.first, wanted.last), wanted.only)


class Stack(NamedTuple):
    """The dollars by day of the most expensive groups, and under None those of all others."""

    values: Sequence[str]  # most expensive first
    others: int
    usd_by_day: Mapping[date, Mapping[str | None, Decimal]]


def stack_groups(session: Session, account_id: str, wanted: Selection, limit: int) -> Stack:
    """Return the dollars by day of the groups of the selection's only key, in one reading."""
    spend = _read(account_id, wanted)
    key, cost = spend.value.label("key"), func.sum(spend.cost_usd).label("cost_usd")
    sums = select(spend.day, key, cost).where(*spend.matches)
    days = sums.group_by(spend.day, spend.value).cte("days")
    total = func.sum(days.c.cost_usd)
    position = func.row_number().over(order_by=(total.desc(), days.c.key)).label("position")
    ranked = select(days.c.key, position, func.count().over().label("count"))
    ranks = ranked.group_by(days.c.key).cte("ranks")
    shown = case((ranks.c.position <= limit, ranks.c.position))
    query = select(days.c.day, shown, func.min(days.c.key), ranks.c.count, total).join(
        ranks, ranks.c.key == days.c.key
    )
    rows = session.execute(query.group_by(days.c.day, shown, ranks.c.count)).all()
    found: dict[date, dict[str | None, Decimal]] = {}
    values = {}
    for day, rank, value, _, usd in rows:
        found.setdefault(day, {})[None if rank is None else value] = usd
        if rank is not None:
            values[rank] = value
    count = rows[0][3] if rows else 0
    return Stack([values[rank] for rank in sorted(values)], count - len(values), found)


def matches_findings(only: Mapping[str, str]) -> list[ColumnElement[bool]]:
    """Match the findings of calls with these labels; findings have no environment."""
    columns = {"route": OWN_ROUTE, "provider": AccountFinding.provider}
    columns["model"] = AccountFinding.model
    return [columns[name] == value for name, value in only.items() if name in FINDING_LABELS]


def list_first_findings(
    session: Session, account_id: str, only: Mapping[str, str], limit: int
) -> Sequence[AccountFinding]:
    """Return the findings to fix first: unresolved, most savings first."""
    query = select(AccountFinding).where(
        AccountFinding.account_id == account_id,
        AccountFinding.state.in_(UNRESOLVED),
        AccountFinding.monthly_usd > 0,
        *matches_findings(only),
    )
    order = (AccountFinding.monthly_usd.desc(), AccountFinding.id)
    return session.scalars(query.order_by(*order).limit(limit)).all()


def sum_confidences(
    session: Session, account_id: str, only: Mapping[str, str]
) -> Mapping[str, Decimal]:
    """Return the savings per month of unresolved findings, by confidence; they may overlap."""
    query = select(AccountFinding.confidence, func.sum(AccountFinding.monthly_usd)).where(
        AccountFinding.account_id == account_id,
        AccountFinding.state.in_(UNRESOLVED),
        *matches_findings(only),
    )
    rows = session.execute(query.group_by(AccountFinding.confidence))
    return {row[0]: row[1] for row in rows}


class Potential(NamedTuple):
    """The unresolved findings of a route, and the sum of their savings per month.

    They may share calls, so the sum of several is an upper limit.
    """

    findings: int
    usd: Decimal


def sum_potential(
    session: Session, account_id: str, only: Mapping[str, str], routes: Collection[str]
) -> Mapping[str, Potential]:
    """Return the potential savings of those routes that have any."""
    query = select(OWN_ROUTE, func.count(), func.sum(AccountFinding.monthly_usd)).where(
        AccountFinding.account_id == account_id,
        AccountFinding.state.in_(UNRESOLVED),
        AccountFinding.monthly_usd > 0,
        OWN_ROUTE.in_(routes),
        *matches_findings(only),
    )
    return {row[0]: Potential(row[1], row[2]) for row in session.execute(query.group_by(OWN_ROUTE))}
