"""Queries that compare two periods of an account: spend by route and model, and findings."""

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    Select,
    bindparam,
    collate,
    func,
    or_,
    select,
)
from sqlalchemy.orm import Session

from detectors.contract import Span
from service.models.calls.account_findings import AccountFinding, FindingSaving
from service.models.calls.daily_spend import SpendDay, SpendRow

# The names of both periods in queries, and their other parameter.
_NAMES: Final = ("before", "after")
_ACCOUNT: Final[BindParameter[str]] = bindparam("account_id")
ROUTE: Final = ("route",)
MODEL: Final = ("provider", "model")


@dataclass(frozen=True)
class Period:
    """A range of days in UTC, both inclusive."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1


Periods = tuple[Period, Period]


class ComparedSpend(NamedTuple):
    """The spend of a route or a model in both periods."""

    labels: tuple[str, ...]
    before_usd: Decimal
    after_usd: Decimal


class ComparedSavings(NamedTuple):
    """What a finding could have saved in both periods; 0 where it had no flagged calls."""

    finding: AccountFinding
    before_usd: Decimal
    after_usd: Decimal


def measure_periods(session: Session, account_id: str, periods: Periods) -> tuple[Span, Span]:
    """Return the days, calls and spend of both periods, from one reading."""
    row = session.execute(_measured(), _parameters(account_id, periods)).one()
    before, after = (_span(*each) for each in zip(periods, (row[:2], row[2:]), strict=True))
    return before, after


@cache
def _measured() -> Select[*tuple[Any, ...]]:
    """Return a query; like others here, it is built once, which takes longer than running it."""
    sums = [
        _sum_in(period, SpendDay.day, amount)
        for period in _NAMES
        for amount in (SpendDay.calls, SpendDay.cost_usd)
    ]
    return select(*sums).where(SpendDay.account_id == _ACCOUNT, _is_in_either(SpendDay.day))


def _span(period: Period, sums: Sequence[Any]) -> Span:
    calls, usd = sums
    return Span(
        first=period.first,
        last=period.last,
        days=period.days,
        calls=int(calls),
        spend_usd=Decimal(usd),
    )


def compare_spend_by(
    session: Session, account_id: str, periods: Periods, keys: Sequence[str], limit: int
) -> list[ComparedSpend]:
    """Return the routes or models whose spend per day differs most."""
    given = {**_parameters(account_id, periods), "most": limit}
    rows = session.execute(_changed_spend(tuple(keys)), given)
    return [ComparedSpend(tuple(row[: len(keys)]), row[-2], row[-1]) for row in rows]


@cache
def _changed_spend(keys: tuple[str, ...]) -> Select[*tuple[Any, ...]]:
    columns = [getattr(SpendRow, name) for name in keys]
    before, after = (_sum_in(name, SpendRow.day, SpendRow.cost_usd) for name in _NAMES)
    names = [collate(column, "C") for column in columns]
    return (
        select(*columns, before, after)
        .where(SpendRow.account_id == _ACCOUNT, _is_in_either(SpendRow.day))
        .group_by(*columns)
        .order_by(_change(before, after).desc(), *names)
        .limit(bindparam("most"))
    )


def compare_findings(
    session: Session, account_id: str, periods: Periods, limit: int
) -> list[ComparedSavings]:
    """Return the findings with savings in either period whose savings per day differ most."""
    given = {**_parameters(account_id, periods), "most": limit}
    return [ComparedSavings(*row) for row in session.execute(_changed_findings(), given)]


@cache
def _changed_findings() -> Select[*tuple[Any, ...]]:
    saving = (FindingSaving.day, FindingSaving.saving_usd)
    before, after = (_sum_in(name, *saving) for name in _NAMES)
    return (
        select(AccountFinding, before, after)
        .join(FindingSaving, FindingSaving.account_finding_id == AccountFinding.id)
        .where(AccountFinding.account_id == _ACCOUNT, _is_in_either(FindingSaving.day))
        .group_by(AccountFinding.id)
        .having(before + after > 0)
        .order_by(_change(before, after).desc(), AccountFinding.id)
        .limit(bindparam("most"))
    )


def find_first_day(session: Session, account_id: str) -> date | None:
    """Return the first day whose savings are known: the audits of the account see 30 days."""
    query = select(func.min(FindingSaving.day)).join(
        AccountFinding, AccountFinding.id == FindingSaving.account_finding_id
    )
    return session.scalar(query.where(AccountFinding.account_id == account_id))


def find_used(
    session: Session, account_id: str, period: Period, findings: Collection[AccountFinding]
) -> set[str]:
    """Return the IDs of the findings whose routes have calls in the period.

    Without tag and endpoint, a finding's route is its model.
    """
    if not findings:
        return set()
    routes = {each.route for each in findings} | {""}
    query = select(SpendRow.route, SpendRow.model).distinct()
    rows = session.execute(
        query.where(
            SpendRow.account_id == account_id,
            SpendRow.day.between(period.first, period.last),
            SpendRow.route.in_(routes),
        )
    ).all()
    used = {row.route for row in rows if row.route} | {row.model for row in rows if not row.route}
    return {each.id for each in findings if each.route in used}


def _parameters(account_id: str, periods: Periods) -> dict[str, Any]:
    """Return the values of the queries' parameters."""
    given: dict[str, Any] = {_ACCOUNT.key: account_id}
    for name, period in zip(_NAMES, periods, strict=True):
        given |= {f"{name}_first": period.first, f"{name}_last": period.last}
        given[f"{name}_days"] = period.days
    return given


def _sum_in(period: str, day: Any, amount: Any) -> ColumnElement[Any]:
    return func.coalesce(func.sum(amount).filter(_is_in(period, day)), 0)


def _change(before: ColumnElement[Any], after: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return how much sums per day differ."""
    per_day = (
        total / bindparam(f"{name}_days", type_=Integer)
        for name, total in zip(_NAMES, (before, after), strict=True)
    )
    return func.abs(operator.sub(*per_day))


def _is_in_either(day: Any) -> ColumnElement[bool]:
    return or_(*(_is_in(name, day) for name in _NAMES))


def _is_in(period: str, day: Any) -> ColumnElement[bool]:
    within: ColumnElement[bool] = day.between(
        bindparam(f"{period}_first"), bindparam(f"{period}_last")
    )
    return within
