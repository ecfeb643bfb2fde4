"""GET /api/v1/compare: two audits or two periods of an account."""

from typing import Any

from detectors.contract import Span, SpendChange
from service.operations.comparing import Compared, compare_audits, compare_periods
from service.web.auth.callers import current_caller
from service.web.auth.scopes import READ_AUDITS, READ_FINDINGS
from service.web.http.current import get_session
from service.web.openapi.reading import NO_AUDIT, READ_ERRORS, ReadBlueprint
from service.web.schemas.comparison import AuditPair, CompareQuerySchema, ComparisonSchema

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
    answer = _describe(compared) | {
        "before": named[0] | _span(compared.before),
        "after": named[1] | _span(compared.after),
    }
    return answer if READ_FINDINGS in caller.scopes else _without(answer, "findings")


def _without(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != name}


def _span(span: Span) -> dict[str, Any]:
    """Return the span; an audit without calls has no days."""
    found = {name: getattr(span, name) for name in ("first", "last", "days", "calls", "spend_usd")}
    return {name: value for name, value in found.items() if value is not None}


def _describe(compared: Compared) -> dict[str, Any]:
    return {
        "kind": compared.kind,
        "is_per_day": compared.is_per_day,
        "total": _change(compared.total),
        "routes": [_change(each, "route") for each in compared.routes],
        "models": [_change(each, "provider", "model") for each in compared.models],
        "findings": compared.findings,
        "notes": compared.notes,
    }


def _change(change: SpendChange, *names: str) -> dict[str, Any]:
    dollars = {
        "before_usd": change.before_usd,
        "after_usd": change.after_usd,
        "change_usd": change.change_usd,
    }
    found = dict(zip(names, change.labels, strict=True)) | dollars
    return found if change.change_pct is None else found | {"change_pct": change.change_pct}
