"""Dollars by day of an account's routes and models, for unusual days and budgets."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select
from sqlalchemy.orm import Session

from service.models.calls.daily_spend import SpendRow

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


def list_routes(session: Session, account_id: str, first: date) -> Sequence[str]:
    """Return the routes with spend since a day, most expensive first, at most 200."""
    since = (SpendRow.account_id == account_id, SpendRow.day >= first)
    routes = select(SpendRow.route).where(*since).group_by(SpendRow.route)
    ranked = routes.order_by(func.sum(SpendRow.cost_usd).desc(), SpendRow.route)
    return session.scalars(ranked.limit(_SUGGESTED)).all()
