"""Queries that compare two periods of an account: spend by route and model, and findings."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, collate, func, or_, select
from sqlalchemy.orm import Session

from detectors.contract import Span
from service.models.calls.account_findings import AccountFinding, FindingSaving
from service.models.calls.daily_spend import SpendDay, SpendRow

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
    sums = [
        _sum_in(period, SpendDay.day, amount)
        for period in periods
        for amount in (SpendDay.calls, SpendDay.cost_usd)
    ]
    of_account = (SpendDay.account_id == account_id, _is_in(periods, SpendDay.day))
    row = session.execute(select(*sums).where(*of_account)).one()
    before, after = (_span(*each) for each in zip(periods, (row[:2], row[2:]), strict=True))
    return before, after


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
    columns = [getattr(SpendRow, name) for name in keys]
    before, after = (_sum_in(period, SpendRow.day, SpendRow.cost_usd) for period in periods)
    change = func.abs(after / periods[1].days - before / periods[0].days)
    names = [collate(column, "C") for column in columns]
    query = (
        select(*columns, before, after)
        .where(SpendRow.account_id == account_id, _is_in(periods, SpendRow.day))
        .group_by(*columns)
        .order_by(change.desc(), *names)
        .limit(limit)
    )
    return [
        ComparedSpend(tuple(row[: len(keys)]), row[-2], row[-1]) for row in session.execute(query)
    ]


def compare_findings(
    session: Session, account_id: str, periods: Periods, limit: int
) -> list[ComparedSavings]:
    """Return the findings with savings in either period whose savings per day differ most."""
    before, after = (
        _sum_in(period, FindingSaving.day, FindingSaving.saving_usd) for period in periods
    )
    change = func.abs(after / periods[1].days - before / periods[0].days)
    query = (
        select(AccountFinding, before, after)
        .join(FindingSaving, FindingSaving.account_finding_id == AccountFinding.id)
        .where(AccountFinding.account_id == account_id, _is_in(periods, FindingSaving.day))
        .group_by(AccountFinding.id)
        .having(before + after > 0)
        .order_by(change.desc(), AccountFinding.id)
        .limit(limit)
    )
    return [ComparedSavings(*row) for row in session.execute(query)]


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


def _sum_in(period: Period, day: Any, amount: Any) -> ColumnElement[Any]:
    return func.coalesce(func.sum(amount).filter(day.between(period.first, period.last)), 0)


def _is_in(periods: Periods, day: Any) -> ColumnElement[bool]:
    return or_(*(day.between(period.first, period.last) for period in periods))
