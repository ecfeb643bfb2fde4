"""The figures of the dashboard that are spend: the month, the chart and the table of routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from detectors.charts import MOST_SERIES, Columns, sparkline
from detectors.wording.figures import day, usd
from service.models.base import Executor
from service.models.calls.finding_list import Potential, find_potential
from service.models.calls.spend import (
    BY_COST,
    Selection,
    Spend,
    UsdByDay,
    sum_days_of,
    sum_spend,
)
from service.operations.watching.month import Month, days_needed, look_at_month
from service.web.pages.spend.charts import chart_spend, cut, read_days
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


def read_spend(session: Executor, account_id: str, query: Query, today: date) -> SpendFigures:
    """Read the month, the chart and the routes of a page's state."""
    needed = days_needed(today)
    days = read_days(query, needed)
    of_month = cut(days.usd, *needed)
    has_calls = bool(cut(days.usd, query.first, query.last))
    # The table still lists the other routes when one is chosen.
    only = {name: value for name, value in query.only.items() if name != _ROUTE}
    earlier, _ = query.periods
    wanted = Selection(
        query.first,
        query.last,
        keys=(_ROUTE,),
        only=only,
        before=earlier,
        must_be_current=True,
        is_brief=True,
        is_local=query.of.is_local,
    )
    ranked = sum_spend(session, account_id, wanted, order=BY_COST, limit=ROUTES)
    names = [each.value for each in ranked.groups]
    trends = sum_days_of(session, account_id, wanted, names)
    potential = find_potential(session, account_id, only, names)
    chart = None
    if has_calls and query.group == _ROUTE and _ROUTE not in query.only:
        chart = chart_spend(query, ranked, days, trends)
    elif has_calls:
        series = replace(query.selection, is_brief=True)
        shown = sum_spend(session, account_id, series, order=BY_COST, limit=MOST_SERIES)
        chart = chart_spend(query, shown, days)
    return SpendFigures(
        month=look_at_month(of_month, today),
        usd_by_day=of_month,
        chart=chart,
        routes=_lines(wanted, ranked, trends, potential, today),
        route_count=ranked.group_count,
        previous=(earlier.first, earlier.last),
        gap=days.gap,
    )


def _lines(
    wanted: Selection,
    ranked: Spend,
    trends: Mapping[str, UsdByDay],
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
                previous_usd=each_route.previous_usd,
                trend=sparkline(closed),
                peak=f"Highest: {usd(highest)} on {day(days[amounts.index(highest)])}",
                potential=potential.get(value),
            )
        )
    return lines
