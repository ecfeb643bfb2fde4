"""/dashboard: what was spent, whether that is normal, what to fix first, and what was saved."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

from flask import redirect, render_template, request, url_for

from detectors.wording.figures import change, day
from detectors.wording.hero import Hero, make_hero, make_limit
from detectors.wording.projection import TOO_LITTLE_DATA, is_monthly
from service.models.access.credentials import list_ingest_keys
from service.models.audits.audit_lists import PageFilter, list_top_findings, page_of_audits
from service.models.audits.audits import ACCOUNT, Audit
from service.models.base import Executor, utc_now
from service.models.billing.credits import count_free_credits
from service.models.calls.account_audits import (
    DEFAULT_WINDOW,
    find_account_audits,
    queue_account_audit,
)
from service.models.calls.daily_spend import PlanRow
from service.models.calls.finding_list import (
    FINDING_LABELS,
    FindingFilter,
    count_by_state,
    list_account_findings,
    sum_confidences,
)
from service.models.calls.future_calls import sum_future_calls
from service.models.calls.plan_usage import sum_plan_usage
from service.models.calls.spend import find_last_day
from service.models.identity.accounts import KEY_LIMITS, SAMPLE_EMAIL, Account
from service.operations.findings.periods import measure_all_realized
from service.operations.watching.budgets import BudgetState, list_states
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, current_days, require_visitor
from service.web.http.current import current_config, current_queues, get_connection, get_session
from service.web.pages.account.billing import granting_for
from service.web.pages.dashboard.spend import SpendFigures, read_spend
from service.web.pages.findings.home import STATE_WORDS
from service.web.pages.imports.page import read_chosen
from service.web.pages.spend.charts import UNNAMED
from service.web.pages.spend.query import Query, read_query

_FINDINGS: Final = 5
_BUDGETS: Final = 4
_IMPORTS: Final = 5
# Links of earlier releases filter the list of imports, which has a page of its own.
_IMPORT_FILTERS: Final = frozenset({"status", "source", "before", "after"})
# A route's budget is shown when so much of it is spent.
_NEARLY: Final = 80

blueprint = PrivatePages("dashboard", __name__)


@blueprint.get("/dashboard")
@require_visitor
def dashboard() -> Any:
    if not _IMPORT_FILTERS.isdisjoint(request.args):
        return redirect(url_for("imports.home", **read_chosen()._asdict()), 303)
    account_id, of = current_caller().account_id, current_days()
    today, is_local = of.today(), of.is_local
    query = read_query(request.args, of, path="/dashboard")
    spend = read_spend(get_connection(), account_id, query, today)
    session = get_connection()  # the chart ends a transaction when it stores a series' color
    # Few accounts have no calls this month; then two more queries say whether they ever had any.
    last_day = max(spend.usd_by_day, default=None) if not query.only else None
    last_day = last_day or find_last_day(session, account_id, today, is_local=is_local)
    last_day = last_day or find_last_day(
        session, account_id, today, table=PlanRow, is_local=is_local
    )
    if last_day is None:
        return show_first_steps()
    figures = _read(session, account_id, query, spend, last_day)
    return render_template(
        "pages/dashboard/home.html",
        is_sample=current_caller().email == SAMPLE_EMAIL,
        last_day=last_day,
        future=sum_future_calls(session, account_id, today, is_local=is_local),
        **figures,
    )


def show_first_steps(secret: str = "", dsn: str = "") -> str:
    """Show the ways to send calls; the examples contain the account's new key, if it is given."""
    session, config, account_id = get_session(), current_config(), current_caller().account_id
    of = current_days()
    account = session.get_one(Account, account_id)
    audits = page_of_audits(session, account_id, PageFilter(), size=_IMPORTS).rows
    return render_template(
        "pages/dashboard/new.html",
        secret=secret,
        dsn=dsn,
        may_send=KEY_LIMITS[account.plan] > 0,
        has_keys=bool(list_ingest_keys(session, account_id)),
        credits=count_free_credits(session, account_id),
        granting=granting_for(config, account.email),
        future=sum_future_calls(session, account_id, of.today(), is_local=of.is_local),
        audits=audits,
        findings=list_top_findings(session, account_id),
        base_url=config.base_url,
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


def _read(
    session: Executor, account_id: str, query: Query, spend: SpendFigures, last_day: date
) -> dict[str, Any]:
    """Read what else the page shows of an account with calls."""
    month, only = spend.month, query.only
    newest = last_day
    if query.of.is_local:  # findings have UTC days, as their audits
        newest = find_last_day(session, account_id, utc_now().date()) or last_day
    audits = find_account_audits(get_session(), account_id)
    periods = (month.so_far, month.previous_so_far)
    is_early = audits.latest is None and not only
    labels = {name: value for name, value in only.items() if name in FINDING_LABELS}
    first = list_account_findings(
        session, account_id, FindingFilter(only=labels, has_savings=True), _FINDINGS
    )
    return {
        "query": query,
        "series_link": lambda value: query.page_url(value) or query.narrowed_url(value),
        "day_link": lambda first, last: query.between(first, last).url(),
        "spend": spend,
        "month": month,
        "own": audits,
        "hero": read_hero(session, account_id, audits.latest, only),
        "compared_savings": "" if only else compare_savings(audits.latest, audits.earlier),
        "realized": measure_all_realized(session, account_id, only, periods, newest),
        "plan": sum_plan_usage(
            session,
            account_id,
            (query.first, query.last),
            query.only,
            is_local=query.of.is_local,
        ),
        "budgets": _read_budgets(session, account_id, query, spend),
        "findings": first,
        "import_findings": list_top_findings(get_session(), account_id) if is_early else [],
        "has_findings": bool(first or count_by_state(session, account_id)),
        "states": STATE_WORDS,
        "unnamed": UNNAMED,
        "today": month.today,
        "changed": request.args.get("changed", type=int),
    }


def _read_budgets(
    session: Executor, account_id: str, query: Query, spend: SpendFigures
) -> list[BudgetState]:
    """Return the account's budget and those of routes that need attention, or the route's own."""
    known = None if query.only else spend.usd_by_day
    today, is_local = spend.month.today, query.of.is_local
    states = list_states(session, account_id, today, known, is_local=is_local)
    if query.only:
        return [each for each in states if query.only == {"route": each.route}]
    shown = (
        each
        for each in states
        if each.route is None or each.percent >= _NEARLY or each.is_forecast_over
    )
    return list(shown)[:_BUDGETS]


_NONE: Final = Decimal(0)
# An earlier audit of fewer days says less.
_COVERED: Final = 0.9
# As the words of a change read within a sentence.
_WITHIN: Final = {"No change": "unchanged", "New": "new"}


def read_hero(
    session: Executor, account_id: str, latest: Audit | None, only: Mapping[str, str]
) -> Hero | None:
    """Return what could be saved; None before the first audit, and where findings don't say it."""
    if latest is None or any(name not in FINDING_LABELS for name in only):
        return None
    if only:
        return make_limit(sum_confidences(session, account_id, only), latest)
    return make_hero(latest)


def compare_savings(latest: Audit | None, earlier: Audit | None) -> str:
    """Compare avoidable spend with the audit of the period before; "" if that isn't covered."""
    if latest is None:
        return ""
    if not is_monthly(latest):
        return TOO_LITTLE_DATA
    if earlier is None or earlier.verified_savings_usd is None or not is_monthly(earlier):
        return ""
    if (earlier.span_days or 0) < _COVERED * (latest.span_days or 0):
        return ""
    changes = (
        (name, change(now or _NONE, before or _NONE))
        for name, now, before in (
            ("verified", latest.verified_savings_usd, earlier.verified_savings_usd),
            ("estimated", latest.estimated_savings_usd, earlier.estimated_savings_usd),
        )
    )
    words = ", ".join(
        f"{name} {_WITHIN.get(words, words)}" for name, words in changes if words != "–"
    )
    return f"Avoidable spend since {day(earlier.created_at)}: {words}" if words else ""
