"""/spend: what calls cost by day, and by route, model, provider or environment."""

from dataclasses import replace
from typing import Final

from flask import Response, render_template, request

from service.connections import list_priced
from service.errors import InvalidRequestError
from service.models.base import utc_now
from service.models.calls.daily_spend import PlanRow
from service.models.calls.future_calls import sum_future_calls
from service.models.calls.plan_usage import list_plan_models, sum_plan_usage
from service.models.calls.spend import (
    BY_COST,
    DAY,
    Selection,
    Spend,
    find_last_day,
    sum_spend,
)
from service.models.connections.unsent import has_unpriced, sum_unsent
from service.models.operations.chart_marks import list_latest_marks
from service.models.operations.saved_views import list_views
from service.reports.csv_table import BYTE_ORDER_MARK
from service.reports.focus import V1_2, VERSIONS
from service.web.auth.callers import current_caller
from service.web.auth.visitors import (
    PrivatePages,
    current_days,
    current_utc_days,
    require_visitor,
)
from service.web.http.current import current_config, get_connection
from service.web.http.spend_tables import answer_focus_csv, answer_spend_csv, answer_spend_xlsx
from service.web.pages.spend.charts import UNNAMED, Days, chart_spend, read_days
from service.web.pages.spend.query import Query, read_query
from service.web.pages.tables import Column, Table, read_search, read_table
from service.web.schemas.labels import MAX_LENGTH

SHOWN: Final = 400
_COLUMNS: Final = (
    Column("spend", "Spend", is_number=True),
    Column("share", "Share", is_sortable=False, can_hide=True),
    Column("before", "Change", is_number=True, can_hide=True),
    Column("calls", "Calls", is_number=True, can_hide=True),
    Column("input", "Input tokens", is_number=True, can_hide=True),
    Column("output", "Output tokens", is_number=True, can_hide=True),
)

blueprint = PrivatePages("spend_page", __name__)


@blueprint.get("/spend")
@require_visitor
def show() -> str:
    session, account_id, query = get_connection(), current_caller().account_id, _query()
    today, is_local = query.of.today(), query.of.is_local
    ranking = sum_spend(session, account_id, query.selection, order=BY_COST, limit=SHOWN)
    table, listed = read_groups(query, ranking)
    query = replace(query, table=table.state)
    days = query.first, query.last
    # A report of tokens may have no number of calls.
    has_spend = bool(ranking.totals.calls or ranking.totals.cost_usd)
    last_day = None
    if not has_spend:
        last_day = find_last_day(session, account_id, today, is_local=is_local)
        last_day = last_day or find_last_day(
            session, account_id, today, table=PlanRow, is_local=is_local
        )
    read = read_days(query) if has_spend else Days({}, "")
    chart = chart_spend(query, ranking, read) if has_spend else None
    session = get_connection()  # the chart ends a transaction when it stores a series' color
    plan = sum_plan_usage(session, account_id, days, query.only, is_local=is_local)
    models = (
        ()
        if not plan.calls
        else list_plan_models(session, account_id, days, query.only, is_local=is_local)
    )
    return render_template(
        "pages/spend/spend.html",
        query=query,
        link=lambda value: query.page_url(value) or query.narrowed_url(value),
        day_link=lambda first, last: query.between(first, last).url(),
        ranking=ranking,
        gap=read.gap,
        table=table,
        listed=listed,
        views=list_views(session, account_id, query.path),
        marks=list_latest_marks(session, account_id),
        max_words=MAX_LENGTH,
        chart=chart,
        last_day=last_day,
        plan=plan,
        plan_models=models,
        future=sum_future_calls(session, account_id, today, is_local=is_local),
        unsent_usd=sum_unsent(session, account_id, days) if not query.only else 0,
        has_unpriced=has_unpriced(session, account_id, days, list_priced()),
        unnamed=UNNAMED,
        today=today,
        base_url=current_config().base_url,
        now=utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


@blueprint.get("/spend.csv")
@require_visitor
def csv() -> Response:
    """Download all rows of the table or, with `daily`, of each day."""
    wanted = _downloaded()
    return answer_spend_csv(
        current_caller().account_id, wanted, mark=BYTE_ORDER_MARK, zone=_name_zone(wanted)
    )


@blueprint.get("/spend.focus.csv")
@require_visitor
def focus() -> Response:
    """Download the charges of the range as rows of FOCUS, whose days are UTC."""
    version = request.args.get("version", V1_2)
    if version not in VERSIONS:
        raise InvalidRequestError(f"The version must be one of {', '.join(VERSIONS)}.")
    return answer_focus_csv(
        current_caller().account_id, replace(_downloaded(), is_local=False), version
    )


@blueprint.get("/spend.xlsx")
@require_visitor
def xlsx() -> Response:
    """Download the same as a workbook."""
    wanted = _downloaded()
    return answer_spend_xlsx(current_caller().account_id, wanted, zone=_name_zone(wanted))


def read_groups(query: Query, ranking: Spend) -> tuple[Table, Spend]:
    """Return the state of a page's table, and what it lists in this state.

    Without a state, that is what the chart is from.
    """
    named = Column("name", query.group.capitalize())
    table = read_table(
        request.args, (named, *_COLUMNS), "spend", path=query.path, parameters=query.parameters
    )
    if table.sort == table.default and not table.search:
        return table, ranking
    wanted = replace(query.selection, search=table.search)
    session, account_id = get_connection(), current_caller().account_id
    return table, sum_spend(session, account_id, wanted, order=table.sort, limit=SHOWN)


def _downloaded() -> Selection:
    query = _query()
    keys = (DAY, query.group) if "daily" in request.args else (query.group,)
    search = read_search(request.args)
    return replace(query.selection, keys=keys, search=search, before=None)


def _name_zone(wanted: Selection) -> str:
    """Return whose the days of a download are, for its name and the head of its days."""
    rest = "; UTC without stored calls" if current_utc_days(wanted.first, wanted.last) else ""
    return f"{current_days().name}{rest}"


def _query() -> Query:
    return read_query(request.args, current_days())
