"""Charts of the pages about spend."""

from collections.abc import Mapping
from typing import Any, Final

from detectors.charts import MOST_SERIES, Columns, stacked_columns
from detectors.wording.figures import counted
from detectors.wording.labels import shortened
from service.models.calls.spend import Spend, UsdByDay, sum_days, sum_days_of
from service.operations.watching.marks import list_marks
from service.web.auth.callers import current_caller
from service.web.http.current import get_session
from service.web.pages.spend.query import Query

UNNAMED: Final = {"route": "No tag or endpoint", "environment": "No environment"}
_NAME_LENGTH: Final = 40


def chart_spend(
    query: Query,
    spend: Spend,
    days_of: Mapping[str, UsdByDay] | None = None,
    usd_by_day: UsdByDay | None = None,
) -> Columns:
    """Chart the most expensive groups by day, and all others as one series.

    The groups are those of the ranking, so that the chart and the table below it agree. A caller
    may have read their days, and those of all calls.
    """
    session, account_id = get_session(), current_caller().account_id
    priced = [group.value for group in spend.groups if group.sums.cost_usd]
    shown = priced if spend.group_count <= MOST_SERIES else priced[:MOST_SERIES]
    if days_of is None:
        days_of = sum_days_of(session, account_id, query.selection, shown)
    if usd_by_day is None:
        usd_by_day = sum_days(session, account_id, (query.first, query.last), query.only)
    amounts: dict[Any, Any] = {}
    for day, cost in usd_by_day.items():
        parts = {value: days_of[value][day] for value in shown if day in days_of[value]}
        rest = cost - sum(parts.values())
        amounts[day] = {**parts, None: rest} if rest else parts
    names: dict[str | None, str] = {
        value: shortened(value or UNNAMED.get(query.group, ""), _NAME_LENGTH) for value in shown
    }
    names[None] = counted(spend.group_count - len(shown), f"other {query.group}")
    days = (query.first, query.last)
    # They are of the account as a whole.
    marks = {} if query.only else list_marks(session, account_id, days)
    words = {day: [mark.words for mark in found] for day, found in marks.items()}
    return stacked_columns(amounts, names, days, words)
