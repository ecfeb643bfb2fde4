"""The figures of the dashboard that are spend: the month, the chart and the table of routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from sqlalchemy.orm import Session

from detectors.charts import MOST_SERIES, Columns, sparkline
from detectors.wording.figures import day, usd
from service.models.calls.coverage import find_gap
from service.models.calls.finding_list import Potential, sum_potential
from service.models.calls.spend import (
    BY_COST,
    Selection,
    Spend,
    UsdByDay,
    sum_days,
    sum_days_of,
    sum_spend,
)
from service.operations.watching.month import Month, days_needed, look_at_month
from service.web.pages.spend.charts import chart_spend
from service.web.pages.spend.query import Query

ROUTES: Final = 10
_ROUTE: Final = "route"


class RouteLine(NamedTuple):
    """A line of the table of routes, with the outline of its trend."""

    route: str
    cost_usd: Decimal
    share: float
    previous_usd: Decimal  # in the period before, of the same length
    trend: str
    peak: str
    potential: Potential | None


@dataclass(frozen=True, kw_only=True)
class SpendFigures:
    """The month of today, and the chosen range by day and by route."""

    month: Month
    usd_by_day: UsdByDay  # of the month, and of the days that it is compared with
    chart: Columns | None  # None without calls in the range
    routes: Sequence[RouteLine]
    route_count: int
    previous: tuple[date, date]  # the period before, which the routes are compared with
    gap: str  # why they aren't


def read_spend(session: Session, account_id: str, query: Query, today: date) -> SpendFigures:
    """Read the month, the chart and the routes of a page's state."""
    of_month, in_range = _read_days(session, account_id, query, today)
    # The table still lists the other routes when one is chosen.
    only = {name: value for name, value in query.only.items() if name != _ROUTE}
    wanted = Selection(query.first, query.last, keys=(_ROUTE,), only=only, is_brief=True)
    ranked = sum_spend(session, account_id, wanted, order=BY_COST, limit=ROUTES)
    names = [each.value for each in ranked.groups]
    trends = sum_days_of(session, account_id, wanted, names)
    earlier = wanted.previous
    before = replace(wanted, first=earlier.first, last=earlier.last, among=names)
    of_before = sum_spend(session, account_id, before).groups
    previous = {each.value: each.sums.cost_usd for each in of_before}
    potential = sum_potential(session, account_id, only, names)
    gap = find_gap(session, account_id, query.periods)
    chart = None
    if in_range and query.group == _ROUTE and _ROUTE not in query.only:
        chart = chart_spend(query, ranked, gap, trends, in_range)
    elif in_range:
        series = replace(query.selection, before=None, is_brief=True)
        shown = sum_spend(session, account_id, series, order=BY_COST, limit=MOST_SERIES)
        chart = chart_spend(query, shown, gap, usd_by_day=in_range)
    return SpendFigures(
        month=look_at_month(of_month, today),
        usd_by_day=of_month,
        chart=chart,
        routes=_lines(wanted, ranked, trends, previous, potential, today),
        route_count=ranked.group_count,
        previous=(earlier.first, earlier.last),
        gap=gap,
    )


def _read_days(
    session: Session, account_id: str, query: Query, today: date
) -> tuple[UsdByDay, UsdByDay]:
    """Return the dollars by day for the month and in the range, in one reading if they overlap."""
    needed, chosen = days_needed(today), (query.first, query.last)
    if chosen[1] < needed[0]:
        return (
            sum_days(session, account_id, needed, query.only),
            sum_days(session, account_id, chosen, query.only),
        )
    both = (min(needed[0], chosen[0]), max(needed[1], chosen[1]))
    found = sum_days(session, account_id, both, query.only)
    return _cut(found, needed), _cut(found, chosen)


def _cut(usd_by_day: UsdByDay, days: tuple[date, date]) -> UsdByDay:
    return {each: cost for each, cost in usd_by_day.items() if days[0] <= each <= days[1]}


def _lines(
    wanted: Selection,
    ranked: Spend,
    trends: Mapping[str, UsdByDay],
    before: Mapping[str, Decimal],
    potential: Mapping[str, Potential],
    today: date,
) -> list[RouteLine]:
    days = [wanted.first + timedelta(days=at) for at in range(wanted.days)]
    lines, total = [], ranked.totals.cost_usd
    for each_route in ranked.groups:
        value, cost = each_route.value, each_route.sums.cost_usd
        amounts = [trends[value].get(each, Decimal(0)) for each in days]
        highest = max(amounts)
        # An unfinished day would look like a fall.
        closed = amounts[:-1] if wanted.last >= today and len(amounts) > 1 else amounts
        lines.append(
            RouteLine(
                route=value,
                cost_usd=cost,
                share=float(cost / total * 100) if total else 0.0,
                previous_usd=before.get(value, Decimal(0)),
                trend=sparkline(closed),
                peak=f"Highest: {usd(highest)} on {day(days[amounts.index(highest)])}",
                potential=potential.get(value),
            )
        )
    return lines
