"""Dollars by day of an account, its routes and its models."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.orm import Session

from service.models.calls.daily_spend import SpendDay, SpendGroup, SpendRow

_SUGGESTED: Final = 200


class DayOfRoute(NamedTuple):
    """The dollars of one route, with one model or with all, on one day."""

    day: date
    route: str
    model: str
    usd: Decimal


class GroupedSpend(NamedTuple):
    """Columns to sum spend by one label, and the conditions on their table."""

    value: Any
    day: Any
    calls: Any
    cost_usd: Any
    matches: Sequence[ColumnElement[bool]]


def group_spend(
    account_id: str,
    label: str,
    days: tuple[date, date],
    only: Mapping[str, str] = MappingProxyType({}),
) -> GroupedSpend:
    """Return where to read spend by a label: `spend_groups`, unless another label selects calls."""
    if only.keys() - {label}:
        columns = (getattr(SpendRow, label), SpendRow.day, SpendRow.calls, SpendRow.cost_usd)
        return GroupedSpend(*columns, matches_spend(account_id, days, only))
    table = SpendGroup
    of_label = (table.account_id == account_id, table.label == label, table.day.between(*days))
    chosen = [table.value == value for value in only.values()]
    return GroupedSpend(table.value, table.day, table.calls, table.cost_usd, (*of_label, *chosen))


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
    return sum_days_of_values(session, group_spend(account_id, "route", days), routes)


def sum_days_of_values(
    session: Session | Connection, spend: GroupedSpend, values: Collection[str]
) -> Mapping[str, Mapping[date, Decimal]]:
    """Return the dollars by day of some values of a label."""
    query = select(spend.value, spend.day, func.sum(spend.cost_usd))
    query = query.where(*spend.matches, spend.value.in_(values))
    found: dict[str, dict[date, Decimal]] = {value: {} for value in values}
    for value, day, usd in session.execute(query.group_by(spend.value, spend.day)):
        found[value][day] = usd
    return found


def sum_values(
    session: Session | Connection, spend: GroupedSpend, values: Collection[str]
) -> Mapping[str, Decimal]:
    """Return the dollars of those values of a label that have calls."""
    query = select(spend.value, func.sum(spend.cost_usd))
    query = query.where(*spend.matches, spend.value.in_(values))
    return {value: usd for value, usd in session.execute(query.group_by(spend.value))}


def sum_days(
    session: Session | Connection,
    account_id: str,
    days: tuple[date, date],
    only: Mapping[str, str] = MappingProxyType({}),
) -> Mapping[date, Decimal]:
    """Return the dollars of each day, of calls with these labels."""
    if only:
        spend = group_spend(account_id, next(iter(only)), days, only)
        query = select(spend.day, func.sum(spend.cost_usd)).group_by(spend.day)
        rows = session.execute(query.where(*spend.matches))
    else:
        of_account = (SpendDay.account_id == account_id, SpendDay.day.between(*days))
        query = select(SpendDay.day, func.sum(SpendDay.cost_usd)).group_by(SpendDay.day)
        rows = session.execute(query.where(*of_account))
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


def list_routes(session: Session, account_id: str, days: tuple[date, date]) -> Sequence[str]:
    """Return the routes with spend on some days, most expensive first, at most 200."""
    spend = group_spend(account_id, "route", days)
    routes = select(spend.value).where(*spend.matches).group_by(spend.value)
    ranked = routes.order_by(func.sum(spend.cost_usd).desc(), spend.value)
    return session.scalars(ranked.limit(_SUGGESTED)).all()
