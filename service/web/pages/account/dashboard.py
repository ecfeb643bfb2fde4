"""/dashboard: the list of audits, spend over time, the top findings and the credits left."""

from urllib.parse import urlencode

from flask import Blueprint, render_template, request

from detectors.charts import Chart, spend_and_savings
from service.models.audits.audits import SOURCES, STATUSES
from service.models.audits.dashboard import (
    DAYS_SHOWN,
    RECENT_AUDITS,
    AuditPage,
    Filters,
    list_days,
    list_top_findings,
    page_of_audits,
)
from service.models.base import utc_now
from service.models.billing.credits import count_free_credits
from service.models.identity.accounts import Account
from service.web.auth.callers import current_caller
from service.web.auth.visitors import require_visitor
from service.web.http.current import current_config, get_session
from service.web.http.headers import keep_private
from service.web.http.paths import read_id

blueprint = Blueprint("dashboard", __name__)
blueprint.after_request(keep_private)


@blueprint.get("/dashboard")
@require_visitor
def dashboard() -> str:
    session, account_id, filters = get_session(), current_caller().account_id, _filters()
    account = session.get_one(Account, account_id)
    page = page_of_audits(session, account_id, filters)
    return render_template(
        "pages/account/dashboard.html",
        account=account,
        credits=count_free_credits(session, account_id),
        audits=page.rows,
        filters=filters,
        pages=_page_links(page, filters),
        is_new=not page.rows and filters == Filters(),
        chart=_find_chart(account_id) if page.rows else None,
        findings=list_top_findings(session, account_id) if page.rows else (),
        recent_audits=RECENT_AUDITS,
        days_shown=DAYS_SHOWN,
        base_url=current_config().base_url,
        now=utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _filters() -> Filters:
    """Return the filters of the query string; ignore unknown values."""
    query = request.args
    return Filters(
        status=_known_value(query.get("status"), STATUSES),
        source=_known_value(query.get("source"), SOURCES),
        before=read_id(query.get("before", "")),
        after=read_id(query.get("after", "")),
    )


def _known_value(text: str | None, known: tuple[str, ...]) -> str:
    return text if text in known else ""


def _page_links(page: AuditPage, filters: Filters) -> dict[str, str]:
    """Return the links to the newer and older pages that exist."""
    query = {"status": filters.status, "source": filters.source}
    query = {name: value for name, value in query.items() if value}
    links = {}
    if page.newer and page.rows:
        links["newer"] = f"?{urlencode({**query, 'after': page.rows[0].id})}#audits"
    if page.older and page.rows:
        links["older"] = f"?{urlencode({**query, 'before': page.rows[-1].id})}#audits"
    return links


def _find_chart(account_id: str) -> Chart | None:
    """Return the chart of spend by day, if any audit finished recently."""
    days = list_days(get_session(), account_id, utc_now())
    if not days:
        return None
    return spend_and_savings({day.day: (day.spend_usd, day.avoidable_usd) for day in days})
