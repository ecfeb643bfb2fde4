"""/spend: what calls cost by day, and by route, model, provider or environment."""

from typing import Any, Final

from flask import Blueprint, Response, render_template, request

from detectors.charts import MOST_SERIES, Columns, stacked_columns
from detectors.wording.figures import counted
from detectors.wording.labels import shortened
from service.models.base import utc_now
from service.models.calls.ranked_spend import Ranking, find_last_day, rank_spend, spend_by_day
from service.models.calls.spend import DAY, Selection
from service.reports.spend_csv import BYTE_ORDER_MARK
from service.web.auth.callers import current_caller
from service.web.auth.visitors import require_visitor
from service.web.http.current import current_config, get_session
from service.web.http.headers import keep_private
from service.web.http.spend_tables import answer_spend_csv, answer_spend_xlsx
from service.web.pages.spend.query import GROUPS, PERIODS, Query, read_query

SHOWN: Final = 100
_NAME_LENGTH: Final = 40
_UNNAMED: Final = {"route": "No tag or endpoint", "environment": "No environment"}

blueprint = Blueprint("spend_page", __name__)
blueprint.after_request(keep_private)


@blueprint.get("/spend")
@require_visitor
def show() -> str:
    session, account_id, query = get_session(), current_caller().account_id, _query()
    ranking = rank_spend(session, account_id, query.selection, limit=SHOWN)
    return render_template(
        "pages/spend/spend.html",
        query=query,
        link=query.narrowed_url,
        ranking=ranking,
        chart=_chart(query, ranking) if ranking.totals.calls else None,
        last_day=None if ranking.totals.calls else find_last_day(session, account_id),
        unnamed=_UNNAMED,
        groups=GROUPS,
        periods=PERIODS,
        today=utc_now().date(),
        base_url=current_config().base_url,
        now=utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


@blueprint.get("/spend.csv")
@require_visitor
def csv() -> Response:
    """Download all rows of the table or, with `daily`, of each day."""
    return answer_spend_csv(current_caller().account_id, _downloaded(), mark=BYTE_ORDER_MARK)


@blueprint.get("/spend.xlsx")
@require_visitor
def xlsx() -> Response:
    """Download the same as a workbook."""
    return answer_spend_xlsx(current_caller().account_id, _downloaded())


def _downloaded() -> Selection:
    query = _query()
    keys = (DAY, query.group) if "daily" in request.args else (query.group,)
    return Selection(first=query.first, last=query.last, keys=keys, only=query.only)


def _query() -> Query:
    return read_query(request.args, utc_now().date())


def _chart(query: Query, ranking: Ranking) -> Columns:
    """Chart the most expensive groups, and all others as one series."""
    priced = [group.value for group in ranking.groups if group.sums.cost_usd]
    shown = priced if ranking.group_count <= MOST_SERIES else priced[:MOST_SERIES]
    names: dict[str | None, str] = {
        value: shortened(value or _UNNAMED.get(query.group, ""), _NAME_LENGTH) for value in shown
    }
    names[None] = counted(ranking.group_count - len(shown), f"other {query.group}")
    account_id = current_caller().account_id
    amounts: Any = spend_by_day(get_session(), account_id, query.selection, shown)
    return stacked_columns(amounts, names, (query.first, query.last))
