"""GET /api/v1/compare: two audits or two periods of an account."""

from typing import Any

from service.operations.comparing import compare_audits, compare_periods
from service.web.auth.callers import current_caller
from service.web.auth.scopes import READ_AUDITS, READ_FINDINGS
from service.web.http.current import get_session
from service.web.openapi.reading import NO_AUDIT, READ_ERRORS, ReadBlueprint
from service.web.schemas.comparison import (
    AuditPair,
    CompareQuerySchema,
    ComparisonSchema,
    describe,
)

blueprint = ReadBlueprint("comparison", __name__, description="Compare two audits or two periods.")


@blueprint.route("/compare", methods=["GET"])
@blueprint.reads(
    READ_AUDITS,
    ComparisonSchema,
    operation="compare",
    description="The largest changes first.",
    errors={**READ_ERRORS, 404: NO_AUDIT},
)
@blueprint.arguments(CompareQuerySchema, location="query")
def show(query: dict[str, Any]) -> dict[str, Any]:
    """Compare two audits, or two periods of days."""
    session, caller, wanted = get_session(), current_caller(), query["wanted"]
    if isinstance(wanted, AuditPair):
        ids = wanted.before, wanted.after
        compared = compare_audits(session, caller.account_id, *ids, limit=query["limit"])
        named = [{"audit_id": audit_id} for audit_id in ids]
    else:
        compared = compare_periods(session, caller.account_id, wanted, limit=query["limit"])
        named = [{}, {}]
    answer = describe(compared)
    answer |= {name: named[at] | answer[name] for at, name in enumerate(("before", "after"))}
    if READ_FINDINGS not in caller.scopes:
        answer.pop("findings", None)
    return answer
