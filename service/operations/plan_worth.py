"""What an account's plans are worth: the value of what they include beside their price.

Value is what the API would charge. It isn't money: it is compared with a price and added to no sum.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from heapq import nsmallest
from statistics import median
from typing import Final

from detectors.contract import PlanSums
from service.models.base import Executor
from service.models.calls.account_days import IN_UTC, AccountDays
from service.models.calls.plan_limits import Peak, list_peaks
from service.models.calls.plan_usage import (
    PlanGroup,
    PlanWindow,
    iter_plan_windows,
    lacks_hours,
    list_plan_groups,
    sum_covered,
    sum_plan_usage,
)
from service.models.calls.plans import Plan, cost_of, list_plans

MOST_GROUPS: Final = 50
MOST_WINDOWS: Final = 20


@dataclass(frozen=True)
class Worth:
    """The plans of one tool: what they cost, and the value of its calls on the days they cover."""

    provider: str
    plans: Sequence[Plan]
    price_usd: Decimal
    value_usd: Decimal

    @property
    def ratio(self) -> Decimal | None:
        """Return the value for each dollar of the price."""
        return self.value_usd / self.price_usd if self.price_usd else None


@dataclass(frozen=True)
class PlanReport:
    """The calls of some days that plans include, and the plans."""

    days: tuple[date, date]
    totals: PlanSums
    worth: Sequence[Worth]
    providers: Sequence[PlanGroup]
    routes: Sequence[PlanGroup]
    environments: Sequence[PlanGroup]
    models: Sequence[PlanGroup]
    weeks: Sequence[PlanGroup]
    windows: Sequence[PlanWindow]  # the most valuable first
    window_count: int
    median_window_usd: float
    peaks: Sequence[Peak]  # of the windows that agents reported
    lacks_hours: bool  # some calls are in no window

    @property
    def price_usd(self) -> Decimal:
        return sum((each.price_usd for each in self.worth), Decimal(0))

    @property
    def covered_usd(self) -> Decimal:
        """Return the value of the calls that the known plans cover."""
        return sum((each.value_usd for each in self.worth), Decimal(0))


def report_plans(
    session: Executor, account_id: str, days: tuple[date, date], of: AccountDays = IN_UTC
) -> PlanReport:
    is_local = of.is_local
    groups = list_plan_groups(session, account_id, days, MOST_GROUPS, is_local=is_local)
    values = sum_covered(session, account_id, days, is_local=is_local)
    plans = list_plans(session, account_id)
    worth = []
    for provider in sorted({plan.provider for plan in plans}):
        own = [plan for plan in plans if plan.provider == provider]
        price = sum((cost_of(plan, days) for plan in own), Decimal(0))
        worth.append(Worth(provider, own, price, values.get(provider, Decimal(0))))
    amounts = array("d")  # of all windows, of which there can be millions

    def windows() -> Iterator[PlanWindow]:
        for each in iter_plan_windows(session, account_id, days, of):
            amounts.append(float(each.value_usd))
            yield each

    largest = nsmallest(MOST_WINDOWS, windows(), key=lambda each: (-each.value_usd, each.start))
    return PlanReport(
        days=days,
        totals=sum_plan_usage(session, account_id, days, is_local=is_local),
        worth=worth,
        providers=groups["provider"],
        routes=groups["route"],
        environments=groups["environment"],
        models=groups["model"],
        weeks=groups["week"],
        windows=largest,
        window_count=len(amounts),
        median_window_usd=median(amounts or (0.0,)),
        peaks=list_peaks(session, account_id, days, of),
        lacks_hours=lacks_hours(session, account_id, days, is_local=is_local),
    )
