"""GET /api/v1/reconciliation: what providers billed, and how reports and calls explain it."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from service.models.connections.agent_totals import list_agent_months
from service.models.connections.bill import list_months, newest_months
from service.operations.connections.agent_totals import compare_agents
from service.operations.connections.reconciliation import reconcile_all
from service.web.auth.callers import current_caller
from service.web.auth.scopes import READ_AUDITS
from service.web.http.current import get_session
from service.web.openapi.reading import ReadBlueprint
from service.web.schemas.reconciliation import (
    MAX_MONTHS,
    ReconciliationListSchema,
    ReconciliationQuerySchema,
    describe,
    describe_agent,
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
