"""/bill: each month's bill, what calls explain of it, and what the rest is."""

from datetime import date, datetime
from typing import Any, Final

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.errors import InvalidRequestError, NotFoundError
from service.models.audits.audit_settings import find_settings, save_price_terms
from service.models.base import utc_now
from service.models.connections.agent_totals import list_agent_months
from service.models.connections.bill import list_months, newest_months
from service.models.connections.connections import list_connections
from service.operations.connections.agent_totals import compare_agents
from service.operations.connections.reconciliation import Reconciliation, reconcile, reconcile_all
from service.operations.connections.totals import DAYS, audit_totals
from service.operations.connections.wording import (
    ORDER,
    describe_finding,
    describe_part,
    describe_share,
    name_line,
    name_part,
    name_project,
    name_provider,
    summarize,
    summarize_agent,
)
from service.operations.price_book import load_prices
from service.operations.price_terms import add_discount, has_discount
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_session

_SHOWN_MONTHS: Final = 12
_SHOWN_LINES: Final = 50

blueprint = PrivatePages("bill", __name__, url_prefix="/bill")


@blueprint.get("")
@require_visitor
def home() -> str:
    session, account_id = get_session(), current_caller().account_id
    known = newest_months(list_months(session, account_id), _SHOWN_MONTHS)
    months = reconcile_all(session.connection(), account_id, known)
    counted = newest_months(list_agent_months(session, account_id), _SHOWN_MONTHS)
    return render_template(
        "pages/bill/home.html",
        months=[(each, name_provider(each.provider), describe_share(each)) for each in months],
        agents=compare_agents(session.connection(), account_id, counted),
        connections=list_connections(session, account_id),
    )


@blueprint.get("/agents/<agent>/<month>")
@require_visitor
def show_agent(agent: str, month: str) -> str:
    """Show what an agent counted itself, by model and day of one month, beside the calls."""
    session, account_id = get_session(), current_caller().account_id
    wanted = (_read_month(month), agent)
    if wanted not in list_agent_months(session, account_id):
        raise NotFoundError("There is no such month.")
    [found] = compare_agents(session.connection(), account_id, [wanted])
    return render_template(
        "pages/bill/agent.html", found=found, summary=summarize_agent(found), shown=_SHOWN_LINES
    )


@blueprint.get("/savings")
@require_visitor
def savings() -> str:
    """Show what the provider reports alone prove, with no call sent."""
    session, account_id = get_session(), current_caller().account_id
    providers = sorted({each.provider for each in list_connections(session, account_id)})
    today = utc_now().date()
    found = [
        each
        for provider in providers
        for each in audit_totals(session.connection(), account_id, provider, today)
    ]
    return render_template(
        "pages/bill/savings.html",
        rows=[(each, name_provider(each.provider), *describe_finding(each)) for each in found],
        providers=providers,
        days=DAYS,
    )


@blueprint.get("/<provider>/<month>")
@require_visitor
def show(provider: str, month: str) -> str:
    """Show one month's difference taken apart, and its days, models and projects."""
    found = _find(provider, month)
    rank = {kind: number for number, kind in enumerate(ORDER)}
    return render_template(
        "pages/bill/month.html",
        found=found,
        title=name_provider(provider),
        summary=summarize(found),
        parts=[
            (part, name_part(part.kind), describe_part(part.kind))
            for part in sorted(found.parts, key=lambda part: rank.get(part.kind, len(rank) - 2))
        ],
        projects=[(part, name_project(part.project_id, part.project)) for part in found.projects],
        by_project=[
            (line, name_project(line.key, line.name)) for line in found.by_project[:_SHOWN_LINES]
        ],
        models=[(line, name_line(line.key)) for line in found.models[:_SHOWN_LINES]],
        is_used="used" in request.args,
        has_discount=has_discount(_find_terms(), provider),
    )


@blueprint.post("/<provider>/<month>/discount")
@require_visitor
def use_discount(provider: str, month: str) -> Response:
    """Use the discount that a bill shows as the account's negotiated rate, from its month on."""
    session, account_id = get_session(), current_caller().account_id
    found = _find(provider, month)
    if found.proposed_discount is None:
        raise InvalidRequestError("This bill shows no discount.")
    book = load_prices(session.connection())
    written = add_discount(
        book, _find_terms(), provider, float(found.proposed_discount), found.month
    )
    save_price_terms(session, account_id, written)
    session.commit()
    return redirect(url_for("bill.show", provider=provider, month=month, used=""), 303)


def _read_month(month: str) -> date:
    try:
        return datetime.strptime(month, "%Y-%m").date()  # noqa: DTZ007 - the month's days are UTC
    except ValueError as error:
        raise NotFoundError("There is no such month.") from error


def _find_terms() -> str:
    return find_settings(get_session(), current_caller().account_id).price_terms


def _find(provider: str, month: str) -> Reconciliation:
    first = _read_month(month)
    known: Any = list_months(get_session(), current_caller().account_id)
    if (first, provider) not in known:
        raise NotFoundError("There is no such month.")
    account_id = current_caller().account_id
    return reconcile(get_session().connection(), account_id, provider, first)
