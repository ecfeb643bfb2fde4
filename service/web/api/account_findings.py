"""GET /api/v1/findings: the findings of all calls of an account, with their states."""

from typing import Any, Final

from flask import Response

from service.models.calls.finding_list import FindingCursor, list_account_findings
from service.operations.findings.realized import measure_realized
from service.web.auth.callers import current_caller
from service.web.auth.scopes import READ_FINDINGS
from service.web.http.current import get_session
from service.web.http.finding_tables import HEADER, answer_findings_csv
from service.web.openapi.reading import ReadBlueprint
from service.web.schemas.account_findings import AccountFindingListSchema, AccountFindingQuerySchema
from service.web.schemas.cursors import make_finding_cursor, page
from service.web.schemas.spend import CSV

_CSV_EXAMPLE: Final = ",".join(HEADER) + "\r\n"

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
@blueprint.also_csv(_CSV_EXAMPLE)
@blueprint.arguments(AccountFindingQuerySchema, location="query")
def list_all(query: dict[str, Any]) -> dict[str, Any] | Response:
    """List the findings of your account."""
    session, account_id, limit = get_session(), current_caller().account_id, query["limit"]
    wanted = query["filter"]
    if query["format"] == CSV:
        return answer_findings_csv(account_id, wanted)
    rows = list_account_findings(session, account_id, wanted, limit + 1, query.get("cursor"))
    ids = [row.id for row in rows[:limit] if row.fixed_at is not None]
    realized = measure_realized(session.connection(), account_id, ids)
    found = []
    for row in rows:
        described = {name: value for name, value in row._asdict().items() if value is not None}
        if saved := realized.get(row.id):
            described["realized_savings_usd"] = saved.total_usd
            described["realized_monthly_usd"] = saved.monthly_usd
        found.append(described)
    return page(
        "findings",
        found,
        limit,
        lambda last: make_finding_cursor(FindingCursor(last["monthly_usd"], last["id"])),
    )
