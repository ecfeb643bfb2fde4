"""The figures of the dashboard that are spend: the month, the chart and the table of routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy.orm import Session

from detectors.charts import MOST_SERIES, Columns, sparkline, stacked_columns
from detectors.wording.figures import counted, day, usd
from detectors.wording.labels import shortened
from service.models.calls.route_spend import (
    DaysOf,
    Potential,
    Ranked,
    Stack,
    rank_routes,
    stack_groups,
    sum_before,
    sum_days_of,
    sum_potential,
)
from service.models.calls.spend import Selection
from service.models.calls.spend_by_day import sum_days
from service.operations.watching.month import Month, days_needed, look_at_month
from service.web.pages.spend.charts import UNNAMED
from service.web.pages.spend.query import Query

ROUTES: Final = 10
_ROUTE: Final = "route"
_NAME_LENGTH: Final = 40

UsdByDay = Mapping[date, Decimal]


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
class Spend:
    """The month of today, and the chosen range by day and by route."""

    month: Month
    usd_by_day: UsdByDay  # of the month, and of the days that it is compared with
    chart: Columns | None  # None without calls in the range
    routes: Sequence[RouteLine]
    route_count: int
    previous: tuple[date, date]  # the period before, which the routes are compared with


def read_spend(session: Session, account_id: str, query: Query, today: date) -> Spend:
    """Read the month, the chart and the routes of a page's state."""
    of_month, in_range = _read_days(session, account_id, query, today)
    wanted = _all_routes(query)
    ranked = rank_routes(session, account_id, wanted, ROUTES)
    names = [each.value for each in ranked.groups]
    trends = sum_days_of(session, account_id, wanted, names)
    before = sum_before(session, account_id, wanted, names)
    if query.group == _ROUTE and _ROUTE not in query.only:
        stack = _stack_routes(ranked, trends, in_range)
    else:
        stack = stack_groups(session, account_id, query.selection, MOST_SERIES)
    potential = sum_potential(session, account_id, wanted.only, names)
    return Spend(
        month=look_at_month(of_month, today),
        usd_by_day=of_month,
        chart=_chart(query, stack) if stack.usd_by_day else None,
        routes=_lines(wanted, ranked, trends, before, potential),
        route_count=ranked.count,
        previous=wanted.previous,
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


def _all_routes(query: Query) -> Selection:
    """Select all routes, because the table still lists the others when one is chosen."""
    only = {name: value for name, value in query.only.items() if name != _ROUTE}
    return Selection(first=query.first, last=query.last, keys=(_ROUTE,), only=only)


def _stack_routes(ranked: Ranked, trends: DaysOf, usd_by_day: UsdByDay) -> Stack:
    """Stack the first routes of the table; the others are what is left of each day."""
    priced = [each.value for each in ranked.groups if each.cost_usd]
    shown = priced if ranked.count <= MOST_SERIES else priced[:MOST_SERIES]
    found: dict[date, dict[str | None, Decimal]] = {}
    for each, cost in usd_by_day.items():
        parts: dict[str | None, Decimal] = {
            value: trends[value][each] for value in shown if each in trends[value]
        }
        rest = cost - sum(parts.values(), Decimal(0))
        found[each] = {**parts, None: rest} if rest else parts
    return Stack(shown, ranked.count - len(shown), found)


def _chart(query: Query, stack: Stack) -> Columns:
    names: dict[str | None, str] = {
        value: shortened(value or UNNAMED.get(query.group, ""), _NAME_LENGTH)
        for value in stack.values
    }
    names[None] = counted(stack.others, f"other {query.group}")
    amounts: Any = stack.usd_by_day
    return stacked_columns(amounts, names, (query.first, query.last))


def _lines(
    wanted: Selection,
    ranked: Ranked,
    trends: DaysOf,
    before: Mapping[str, Decimal],
    potential: Mapping[str, Potential],
) -> list[RouteLine]:
    days = [wanted.first + timedelta(days=at) for at in range(wanted.days)]
    lines = []
    for value, _, cost in ranked.groups:
        amounts = [trends[value].get(each, Decimal(0)) for each in days]
        highest = max(amounts)
        lines.append(
            RouteLine(
                route=value,
                cost_usd=cost,
                share=float(cost / ranked.cost_usd * 100) if ranked.cost_usd else 0.0,
                previous_usd=before.get(value, Decimal(0)),
                trend=sparkline(amounts),
                peak=f"Highest: {usd(highest)} on {day(days[amounts.index(highest)])}",
                potential=potential.get(value),
            )
        )
    return lines
