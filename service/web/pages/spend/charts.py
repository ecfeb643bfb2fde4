"""Charts of the pages about spend."""

from calendar import monthrange
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from detectors.charts import MOST_SERIES, Columns, Marks, stacked_columns
from detectors.wording.figures import counted
from detectors.wording.labels import shortened
from detectors.wording.names import NO_ROUTE
from service.models.calls.coverage import find_gap, find_gap_of
from service.models.calls.series_colors import add_slots, find_slots, tell_apart
from service.models.calls.spend import Spend, UsdByDay, sum_days, sum_days_of
from service.models.watching.budgets import find_amount
from service.operations.watching.marks import UNUSUAL, list_marks
from service.web.auth.callers import current_caller
from service.web.http.current import get_connection, get_session
from service.web.pages.spend.query import Query

UNNAMED: Final = {"route": NO_ROUTE, "environment": "No environment"}
_NAME_LENGTH: Final = 40


class Days(NamedTuple):
    """Dollars by day of a range and the period before, and why these can't be compared, or ""."""

    usd: UsdByDay
    gap: str


def read_days(query: Query, also: tuple[date, date] | None = None) -> Days:
    """Read the days of a page's state in one query, with others that a caller needs beside them."""
    session, account_id = get_connection(), current_caller().account_id
    before, shown = query.periods
    first, last = (before.first, shown.last)
    if also is not None:
        first, last = min(first, also[0]), max(last, also[1])
    is_local = query.of.is_local
    usd = sum_days(session, account_id, (first, last), query.only, is_local=is_local)
    if query.only:  # these calls may be on fewer days than those of the account
        return Days(usd, find_gap(session, account_id, query.periods, is_local=is_local))
    return Days(usd, find_gap_of(cut(usd, before.first, shown.last), query.periods))


def cut(usd_by_day: UsdByDay, first: date, last: date) -> UsdByDay:
    """Return the days within a range."""
    return {each: cost for each, cost in usd_by_day.items() if first <= each <= last}


def chart_spend(
    query: Query, spend: Spend, days: Days, days_of: Mapping[str, UsdByDay] | None = None
) -> Columns:
    """Chart the most expensive groups by day, and all others as one series.

    The groups are those of the ranking, so that the chart and the table below it agree. A caller
    may have read their days.
    """
    session, account_id = get_connection(), current_caller().account_id
    shown = name_series(spend)
    if days_of is None:
        days_of = sum_days_of(session, account_id, query.selection, shown)
    amounts: dict[Any, Any] = {}
    for day, cost in cut(days.usd, query.first, query.last).items():
        parts = {value: days_of[value][day] for value in shown if day in days_of[value]}
        rest = cost - sum(parts.values())
        amounts[day] = {**parts, None: rest} if rest else parts
    names: dict[str | None, str] = {
        value: shortened(value or UNNAMED.get(query.group, ""), _NAME_LENGTH) for value in shown
    }
    names[None] = counted(spend.group_count - len(shown), f"other {query.group}")
    marks = _mark(query, choose_colors(query.group, shown), days)
    return stacked_columns(amounts, names, (query.first, query.last), marks)


def name_series(spend: Spend) -> list[str]:
    """Return the groups that have a series of their own."""
    priced = [group.value for group in spend.groups if group.sums.cost_usd]
    return priced if spend.group_count <= MOST_SERIES else priced[:MOST_SERIES]


def choose_colors(kind: str, names: Sequence[str]) -> Mapping[str, int]:
    """Return the colors of series, and store those of series that were never shown before."""
    session, account_id = get_session(), current_caller().account_id
    known = find_slots(get_connection(), account_id, kind, names)
    if len(known) < len(names):
        add_slots(session, account_id, kind, names)
        session.commit()
        known = find_slots(session, account_id, kind, names)
    return tell_apart(names, known)


def _mark(query: Query, slots: Mapping[str, int], days: Days) -> Marks:
    session, account_id, only = get_connection(), current_caller().account_id, query.only
    earlier, _ = query.periods
    later_by = query.first - earlier.first
    before = {} if days.gap else cut(days.usd, earlier.first, earlier.last)
    budget = find_amount(session, account_id, only.get("route")) if set(only) <= {"route"} else None
    marks = list_marks(session, account_id, (query.first, query.last), only, query.of)
    return Marks(
        slots=slots,
        before={day + later_by: cost for day, cost in before.items()},
        daily_budget=budget / monthrange(query.last.year, query.last.month)[1] if budget else None,
        reasons={
            day: ". ".join(mark.words for mark in found if mark.kind == UNUSUAL)
            for day, found in marks.items()
        },
        changes={
            day: [mark.words for mark in found if mark.kind != UNUSUAL]
            for day, found in marks.items()
        },
        today=query.of.today(),
        whose=query.of.words,
    )
