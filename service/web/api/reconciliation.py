"""GET /api/v1/reconciliation: what providers billed, and how reports and calls explain it."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from service.models.connections.agent_totals import list_agent_months
from service.models.connections.bill import list_months, newest_months
from service.operations.connections.agent_totals import AgentMonth, compare_agents
from service.operations.connections.reconciliation import Reconciliation, reconcile_all
from service.operations.connections.wording import summarize, summarize_agent
from service.web.auth.callers import current_caller
from service.web.auth.scopes import READ_AUDITS
from service.web.http.current import get_session
from service.web.openapi.reading import ReadBlueprint
from service.web.schemas.reconciliation import (
    DAY,
    MAX_MONTHS,
    MODEL,
    ReconciliationListSchema,
    ReconciliationQuerySchema,
)

blueprint = ReadBlueprint(
    "reconciliation", __name__, description="Compare providers' bills with your calls."
)


@blueprint.route("/reconciliation", methods=["GET"])
@blueprint.reads(
    READ_AUDITS,
    ReconciliationListSchema,
    operation="reconcile",
    description=f"At most {MAX_MONTHS} months of providers that you connected, and as many of"
    " coding agents that send what they count themselves.",
)
@blueprint.arguments(ReconciliationQuerySchema, location="query")
def show(query: dict[str, Any]) -> dict[str, Any]:
    """Take the difference between bills and calls apart."""
    session, account_id = get_session(), current_caller().account_id
    connection, lines = session.connection(), query.get("lines")
    bills = _choose(list_months(session, account_id), query)
    agents = _choose(list_agent_months(session, account_id), query)
    return {
        "reconciliations": [
            describe(each, lines) for each in reconcile_all(connection, account_id, bills)
        ],
        "agents": [
            describe_agent(each, lines) for each in compare_agents(connection, account_id, agents)
        ],
    }


def _choose(
    months: Sequence[tuple[date, str]], query: dict[str, Any]
) -> Sequence[tuple[date, str]]:
    """Return the months and providers, or agents, that are asked for."""
    chosen = [
        (month, name)
        for month, name in months
        if query.get("provider", name) == name
        and month <= query.get("last", month)
        and month >= query.get("first", query.get("last", month))
    ]
    return newest_months(chosen, MAX_MONTHS)


def describe(found: Reconciliation, lines: str | None = None) -> dict[str, Any]:
    """Return one month as the API, and the command with `--json`, have it."""
    answer: dict[str, Any] = {
        **{name: getattr(found, name) for name in ("provider", "billed_usd", "reported_usd")},
        **{name: getattr(found, name) for name in ("counted_usd", "explained_usd", "coverage")},
        "month": f"{found.month:%Y-%m}",
        "rate": found.rate,
        "unexplained_usd": found.unexplained_usd,
        "parts": [{"kind": part.kind, "usd": part.usd} for part in found.parts],
        "not_sent": [
            {"project_id": part.project_id, "project": part.project, "usd": part.usd}
            for part in found.projects
        ],
        "other_currencies": [
            {"currency": currency, "amount": amount}
            for currency, amount in sorted(found.other_currencies.items())
        ],
        "summary": summarize(found),
    }
    if found.locked_at is not None:
        answer |= {"locked_at": found.locked_at, "locked_billed_usd": found.locked_usd}
    if lines is not None:
        by_label = found.models if lines == MODEL else found.by_project
        names = ("key", "name", "billed_usd", "reported_usd", "counted_usd", "coverage")
        answer["lines"] = [
            {name: getattr(line, name) for name in names}
            for line in (found.days if lines == DAY else by_label)
        ]
    return answer


def describe_agent(found: AgentMonth, lines: str | None = None) -> dict[str, Any]:
    """Return what one agent counted in one month, beside the calls."""
    names = ("own_tokens", "held_tokens", "covered_tokens", "coverage")
    answer = {
        "agent": found.key,
        "month": f"{found.month:%Y-%m}",
        **{name: getattr(found, name) for name in (*names, "estimated_usd")},
        "summary": summarize_agent(found),
    }
    if lines in (DAY, MODEL):
        answer["lines"] = [
            {name: getattr(line, name) for name in ("key", *names)}
            for line in (found.days if lines == DAY else found.models)
        ]
    return answer
