"""GET /api/v1/findings: the findings of all calls of an account, with their states."""

from typing import Any

from service.models.calls.account_findings import AccountFinding
from service.models.calls.finding_list import FILTERS, FindingCursor, list_account_findings
from service.operations.account_findings import find_newest_day, measure_realized
from service.web.auth.callers import current_caller
from service.web.auth.scopes import READ_FINDINGS
from service.web.http.current import get_session
from service.web.openapi.reading import ReadBlueprint
from service.web.schemas.account_findings import AccountFindingListSchema, AccountFindingQuerySchema
from service.web.schemas.cursors import make_finding_cursor

blueprint = ReadBlueprint(
    "account_findings", __name__, description="Read the findings of all your calls."
)


@blueprint.route("/findings", methods=["GET"])
@blueprint.reads(
    READ_FINDINGS,
    AccountFindingListSchema,
    operation="list_account_findings",
    description="Most savings first, as of the latest audit of your account.",
)
@blueprint.arguments(AccountFindingQuerySchema, location="query")
def list_all(query: dict[str, Any]) -> dict[str, Any]:
    """List the findings of your account."""
    session, account_id, limit = get_session(), current_caller().account_id, query["limit"]
    states = FILTERS[query["state"]]
    # One extra row shows whether there is another page.
    rows = list_account_findings(session, account_id, states, limit + 1, query.get("cursor"))
    page = {"findings": [_describe(row) for row in rows[:limit]]}
    if len(rows) <= limit:
        return page
    last = rows[limit - 1]
    return {**page, "next_cursor": make_finding_cursor(FindingCursor(last.monthly_usd, last.id))}


def _describe(row: AccountFinding) -> dict[str, Any]:
    names = [column.name for column in AccountFinding.__table__.columns]
    found = {name: getattr(row, name) for name in names}
    newest = find_newest_day(get_session().connection(), row.account_id) if row.fixed_at else None
    if newest is not None:
        saved = measure_realized(get_session().connection(), row, newest)
        if saved is not None:
            found["realized_savings_usd"] = saved.total_usd
            found["realized_monthly_usd"] = saved.monthly_usd
    return {name: value for name, value in found.items() if value is not None}
