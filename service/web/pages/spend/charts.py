"""Charts of the pages about spend."""

from typing import Any, Final

from detectors.charts import MOST_SERIES, Columns, stacked_columns
from detectors.wording.figures import counted
from detectors.wording.labels import shortened
from service.models.calls.ranked_spend import Ranking, spend_by_day
from service.web.auth.callers import current_caller
from service.web.http.current import get_session
from service.web.pages.spend.query import Query

UNNAMED: Final = {"route": "No tag or endpoint", "environment": "No environment"}
_NAME_LENGTH: Final = 40


def chart_spend(query: Query, ranking: Ranking) -> Columns:
    """Chart the most expensive groups by day, and all others as one series.

    The groups are those of the ranking, so that the chart and the table below it agree.
    """
    priced = [group.value for group in ranking.groups if group.sums.cost_usd]
    shown = priced if ranking.group_count <= MOST_SERIES else priced[:MOST_SERIES]
    names: dict[str | None, str] = {
        value: shortened(value or UNNAMED.get(query.group, ""), _NAME_LENGTH) for value in shown
    }
    names[None] = counted(ranking.group_count - len(shown), f"other {query.group}")
    account_id = current_caller().account_id
    amounts: Any = spend_by_day(get_session(), account_id, query.selection, shown)
    return stacked_columns(amounts, names, (query.first, query.last))
