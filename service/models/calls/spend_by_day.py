"""Dollars by day of an account, its routes and its models."""

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.orm import Session

from service.models.calls.daily_spend import SpendDay, SpendRow

_SUGGESTED: Final = 200


class DayOfRoute(NamedTuple):
    """The dollars of one route, with one model or with all, on one day."""

    day: date
    route: str
    model: str
    usd: Decimal


def sum_routes(
    session: Session | Connection, account_id: str, first: date, last: date
) -> Sequence[DayOfRoute]:
    """Return the dollars of each day, route and model, at the account's prices."""
    keys = (SpendRow.day, SpendRow.route, SpendRow.model)
    query = select(*keys, func.sum(SpendRow.cost_usd)).where(
        SpendRow.account_id == account_id, SpendRow.day.between(first, last)
    )
    return [DayOfRoute(*row) for row in session.execute(query.group_by(*keys))]


def sum_days_of_routes(
    session: Session | Connection, account_id: str, routes: Sequence[str], days: tuple[date, date]
) -> Mapping[str, Mapping[date, Decimal]]:
    """Return the dollars of some routes by day."""
    query = select(SpendRow.route, SpendRow.day, func.sum(SpendRow.cost_usd)).where(
        SpendRow.account_id == account_id, SpendRow.route.in_(routes), SpendRow.day.between(*days)
    )
    found: dict[str, dict[date, Decimal]] = {route: {} for route in routes}
    for route, day, usd in session.execute(query.group_by(SpendRow.route, SpendRow.day)):
        found[route][day] = usd
    return found


def sum_days(
    session: Session | Connection,
    account_id: str,
    days: tuple[date, date],
    only: Mapping[str, str] = MappingProxyType({}),
) -> Mapping[date, Decimal]:
    """Return the dollars of each day, of calls with these labels."""
    query = select(SpendRow.day, func.sum(SpendRow.cost_usd)).group_by(SpendRow.day)
    query = query.where(*matches_spend(account_id, days, only))
    if not only:
        of_account = (SpendDay.account_id == account_id, SpendDay.day.between(*days))
        query = select(SpendDay.day, func.sum(SpendDay.cost_usd)).group_by(SpendDay.day)
        query = query.where(*of_account)
    rows = session.execute(query)
    return {row[0]: row[1] for row in rows}


def matches_spend(
    account_id: str, days: tuple[date, date], only: Mapping[str, str]
) -> list[ColumnElement[bool]]:
    """Match an account's spend on some days, of calls with these labels."""
    return [
        SpendRow.account_id == account_id,
        SpendRow.day.between(*days),
        *(getattr(SpendRow, name) == value for name, value in only.items()),
    ]


def list_routes(session: Session, account_id: str, first: date) -> Sequence[str]:
    """Return the routes with spend since a day, most expensive first, at most 200."""
    since = (SpendRow.account_id == account_id, SpendRow.day >= first)
    routes = select(SpendRow.route).where(*since).group_by(SpendRow.route)
    ranked = routes.order_by(func.sum(SpendRow.cost_usd).desc(), SpendRow.route)
    return session.scalars(ranked.limit(_SUGGESTED)).all()
