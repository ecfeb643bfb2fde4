"""/dashboard: the list of audits, spend over time, the top findings and the credits left."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast
from urllib.parse import urlencode

from flask import Blueprint, redirect, render_template, request, url_for

from detectors.charts import Chart, spend_and_savings, spend_of_days
from detectors.contract import AuditSummary
from detectors.wording.headline import Tile, tiles
from service.models.audits.audits import ACCOUNT, SOURCES, STATUSES, Audit
from service.models.audits.dashboard import (
    DAYS_SHOWN,
    RECENT_AUDITS,
    AuditPage,
    Filters,
    TopFinding,
    list_days,
    list_top_findings,
    page_of_audits,
)
from service.models.base import utc_now
from service.models.billing.credits import count_free_credits
from service.models.calls.account_audits import DEFAULT_WINDOW, queue_account_audit
from service.models.calls.overview import (
    AccountAudits,
    find_account_audits,
    list_findings,
    sum_days,
)
from service.models.identity.accounts import Account
from service.web.auth.callers import current_caller
from service.web.auth.visitors import require_visitor
from service.web.http.current import current_config, current_queues, get_session
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
    audits = find_account_audits(session, account_id)
    days = sum_days(session, account_id, utc_now().date() - timedelta(days=DAYS_SHOWN))
    return render_template(
        "pages/account/dashboard.html",
        account=account,
        account_audit=audits.latest,
        account_tiles=_tiles(audits.latest),
        unfinished_audit=audits.unfinished,
        has_calls=bool(days) or audits.latest is not None,
        credits=count_free_credits(session, account_id),
        audits=page.rows,
        filters=filters,
        pages=_page_links(page, filters),
        is_new=not (page.rows or days) and filters == Filters(),
        chart=spend_of_days(days) if days else _find_chart(account_id) if page.rows else None,
        is_by_call=bool(days),
        findings=_find_findings(account_id, audits),
        recent_audits=RECENT_AUDITS,
        days_shown=DAYS_SHOWN,
        base_url=current_config().base_url,
        now=utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


@blueprint.post("/dashboard/audit")
@require_visitor
def audit_calls() -> Any:
    """Audit the account's calls over all its imports."""
    session, account_id = get_session(), current_caller().account_id
    audit_id = queue_account_audit(session.connection(), account_id, DEFAULT_WINDOW)
    session.commit()
    if audit_id is None:
        return redirect(url_for("dashboard.dashboard"), 303)
    current_queues().enqueue_audit(audit_id, ACCOUNT)
    return redirect(url_for("audit_pages.show", audit_id=audit_id), 303)


def _tiles(audit: Audit | None) -> tuple[Tile, ...]:
    """Return the figures that lead a report too: an audit's row has those of its document."""
    return () if audit is None else tiles(cast(AuditSummary, audit))


def _find_findings(account_id: str, audits: AccountAudits) -> Sequence[TopFinding]:
    """Return the findings of the account's audit; before its first audit, those of its imports."""
    if audits.latest is not None:
        return list_findings(get_session(), audits.latest)
    return list_top_findings(get_session(), account_id)


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
