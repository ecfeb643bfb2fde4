"""GET /api/v1/plan-usage: what plans include, beside what they cost."""

from typing import Any

from msgspec import structs

from service.models.calls.plan_usage import PlanGroup
from service.operations.plan_worth import report_plans
from service.web.auth.callers import current_caller
from service.web.auth.scopes import READ_AUDITS
from service.web.http.current import get_session
from service.web.openapi.reading import ReadBlueprint
from service.web.schemas.plan_usage import PlanReportSchema, PlanUsageQuerySchema

blueprint = ReadBlueprint("plan_usage_api", __name__, description="Read what plans include.")


@blueprint.route("/plan-usage", methods=["GET"])
@blueprint.reads(
    READ_AUDITS,
    PlanReportSchema,
    operation="get_plan_usage",
    description="At most 50 groups of each kind, 60 weeks and 20 windows. Value isn't spend.",
)
@blueprint.arguments(PlanUsageQuerySchema, location="query")
def show(query: dict[str, Any]) -> dict[str, Any]:
    """Return the calls that plans include, and the prices of the plans."""
    report = report_plans(get_session(), current_caller().account_id, query["days"])
    return {
        "first": report.days[0],
        "last": report.days[1],
        "totals": structs.asdict(report.totals),
        "plans": [
            {name: getattr(each, name) for name in ("provider", "price_usd", "value_usd", "ratio")}
            for each in report.worth
        ],
        "tools": [_describe(each) for each in report.providers],
        "projects": [_describe(each) for each in report.routes],
        "environments": [_describe(each) for each in report.environments],
        "models": [_describe(each) for each in report.models],
        "weeks": [_describe(each, "monday") for each in report.weeks],
        "windows": [{**each._asdict(), "end": each.end} for each in report.windows],
        "window_count": report.window_count,
        "limits": [each._asdict() for each in report.peaks],
    }


def _describe(group: PlanGroup, name: str = "name") -> dict[str, Any]:
    return {name: group.name, **structs.asdict(group.sums)}
