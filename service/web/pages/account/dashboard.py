"""/dashboard: the runs ledger, spend and savings over time, the largest findings, what is left."""

from typing import Final
from urllib.parse import urlencode

from flask import Blueprint, render_template, request

from detectors.charts import Chart, spend_and_savings
from service.models.audits.audits import SOURCES, STATUSES
from service.models.audits.dashboard import (
    DAYS_SHOWN,
    RECENT_AUDITS,
    Runs,
    Wanted,
    list_days,
    list_top_findings,
    page_of_runs,
)
from service.models.base import utc_now
from service.models.billing.credits import count_free_credits
from service.models.identity.accounts import Account
from service.web.auth.callers import current_caller
from service.web.auth.visitors import require_visitor
from service.web.http.current import current_config, get_session
from service.web.http.headers import keep_private

_MAX_ID_LENGTH: Final = 64

blueprint = Blueprint("dashboard", __name__)
blueprint.after_request(keep_private)


@blueprint.get("/dashboard")
@require_visitor
def dashboard() -> str:
    session, account_id, wanted = get_session(), current_caller().account_id, _wanted()
    account, runs = session.get_one(Account, account_id), page_of_runs(session, account_id, wanted)
    return render_template(
        "pages/dashboard.html",
        account=account,
        credits=count_free_credits(session, account_id),
        runs=runs.rows,
        wanted=wanted,
        pages=_neighbours(runs, wanted),
        is_new=not runs.rows and wanted == Wanted(),
        chart=_find_chart(account_id) if runs.rows else None,
        findings=list_top_findings(session, account_id) if runs.rows else (),
        recent_audits=RECENT_AUDITS,
        days_shown=DAYS_SHOWN,
        base_url=current_config().base_url,
        now=utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _wanted() -> Wanted:
    """What the query asks for; what it cannot ask for is left out."""
    asked = request.args
    return Wanted(
        status=_one_of(asked.get("status"), STATUSES),
        source=_one_of(asked.get("source"), SOURCES),
        before=_id(asked.get("before")),
        after=_id(asked.get("after")),
    )


def _one_of(text: str | None, known: tuple[str, ...]) -> str:
    return text if text in known else ""


def _id(text: str | None) -> str:
    is_id = text is not None and text.isascii() and text.isalnum() and len(text) <= _MAX_ID_LENGTH
    return str(text) if is_id else ""


def _neighbours(runs: Runs, wanted: Wanted) -> dict[str, str]:
    """The addresses of the newer and the older page, where there are such."""
    kept = {"status": wanted.status, "source": wanted.source}
    kept = {name: value for name, value in kept.items() if value}
    pages = {}
    if runs.newer and runs.rows:
        pages["newer"] = f"?{urlencode({**kept, 'after': runs.rows[0].id})}#runs"
    if runs.older and runs.rows:
        pages["older"] = f"?{urlencode({**kept, 'before': runs.rows[-1].id})}#runs"
    return pages


def _find_chart(account_id: str) -> Chart | None:
    """Spend and savings by day, where any audit was finished lately."""
    days = list_days(get_session(), account_id, utc_now())
    if not days:
        return None
    return spend_and_savings({one.day: (one.spend_usd, one.avoidable_usd) for one in days})
