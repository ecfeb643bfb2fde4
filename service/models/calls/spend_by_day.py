"""Dollars by day of an account's routes and models, for unusual days and budgets."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import Connection, func, select
from sqlalchemy.orm import Session

from service.models.calls.daily_spend import SpendRow


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
