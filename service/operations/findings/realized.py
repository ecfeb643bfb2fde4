"""Realized savings: what the fixes of an account's findings have saved, by the calls themselves."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Date,
    and_,
    case,
    cast,
    func,
    or_,
    select,
)

from service.models.base import utc_now
from service.models.calls.account_findings import AccountFinding, FindingSaving
from service.models.calls.daily_spend import SpendRow
from service.models.calls.spend import find_last_day

# So long before a fix, what the finding cost is measured.
DAYS_BEFORE: Final = 14
_MONTH_DAYS: Final = 30
FIXED_ON: Final = cast(func.timezone("UTC", AccountFinding.fixed_at), Date)
# The calls of a finding's route; without a route, those of its model.
IS_ROUTE: Final = and_(
    SpendRow.account_id == AccountFinding.account_id,
    SpendRow.route
    == case((AccountFinding.route == AccountFinding.model, ""), else_=AccountFinding.route),
    or_(AccountFinding.route != AccountFinding.model, SpendRow.model == AccountFinding.model),
)


@dataclass(frozen=True, kw_only=True)
class Realized:
    """What a fix has saved so far, and the numbers it comes from; negative if it cost more.

    Calls are those of the finding's route, `avoidable` is what the finding could have saved.
    """

    fixed_on: date
    days: int
    calls_before: int
    avoidable_before: Decimal
    calls_since: int
    avoidable_since: Decimal

    @property
    def total_usd(self) -> Decimal:
        """Return (W - w) x calls since: a drop in volume alone gives 0."""
        return self.avoidable_before / self.calls_before * self.calls_since - self.avoidable_since

    @property
    def monthly_usd(self) -> Decimal:
        return self.total_usd / self.days * _MONTH_DAYS

    @property
    def per_call_before_usd(self) -> Decimal:
        return self.avoidable_before / self.calls_before

    @property
    def per_call_since_usd(self) -> Decimal:
        return self.avoidable_since / self.calls_since


def measure_realized(
    connection: Connection, account_id: str, finding_ids: Collection[str]
) -> Mapping[str, Realized]:
    """Return the realized savings of the fixed ones of these findings, by their IDs.

    With W the finding's dollars per call of its route over the 14 days before the fix, and w the
    same since: (W - w) x calls of the route since. A finding is missing before a day has passed,
    and without calls before the fix or since.
    """
    if not finding_ids:
        return {}
    newest = find_last_day(connection, account_id, utc_now().date())
    if newest is None:
        return {}
    fixed = (
        AccountFinding.account_id == account_id,
        AccountFinding.id.in_(finding_ids),
        newest > FIXED_ON,
    )
    of_each = AccountFinding.id
    calls = select(of_each, FIXED_ON.label("fixed_on"), *_sums(SpendRow, newest))
    calls = calls.join_from(AccountFinding, SpendRow, IS_ROUTE)
    savings = select(of_each, *_sums(FindingSaving, newest)).join_from(
        AccountFinding, FindingSaving, FindingSaving.account_finding_id == AccountFinding.id
    )
    saved = connection.execute(savings.where(*fixed).group_by(of_each))
    avoidable = {row.id: row for row in saved}
    realized = dict[str, Realized]()
    for row in connection.execute(calls.where(*fixed).group_by(of_each)):
        could_save = avoidable.get(row.id)
        if row.before and row.since:
            realized[row.id] = Realized(
                fixed_on=row.fixed_on,
                days=(newest - row.fixed_on).days,
                calls_before=int(row.before),
                avoidable_before=Decimal(could_save.before if could_save else 0),
                calls_since=int(row.since),
                avoidable_since=Decimal(could_save.since if could_save else 0),
            )
    return realized


def _sums(table: type[SpendRow] | type[FindingSaving], newest: date) -> list[ColumnElement[Any]]:
    """Return the sums over the days before the fix and since."""
    amount: Any = SpendRow.calls if table is SpendRow else FindingSaving.saving_usd
    is_before = table.day.between(FIXED_ON - (DAYS_BEFORE - 1), FIXED_ON)
    is_since = and_(table.day > FIXED_ON, table.day <= newest)
    return [
        func.coalesce(func.sum(amount).filter(is_in), 0).label(name)
        for name, is_in in (("before", is_before), ("since", is_since))
    ]
