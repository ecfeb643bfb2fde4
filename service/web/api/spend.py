"""Read spend: sums by day, route, model, provider and environment."""

from collections.abc import Mapping
from typing import Any, Final

from flask import Response

from service.models.base import utc_now
from service.models.calls.future_calls import sum_future_calls
from service.models.calls.plan_usage import sum_plan_usage
from service.models.calls.spend import KEYS, sum_spend
from service.web.auth.callers import current_caller
from service.web.auth.scopes import READ_AUDITS
from service.web.http.current import get_session
from service.web.http.spend_tables import answer_focus_csv, answer_spend_csv
from service.web.openapi.reading import ReadBlueprint
from service.web.schemas.cursors import SpendCursor, make_spend_cursor, page
from service.web.schemas.spend import CSV, FOCUS, SpendQuerySchema, SpendSchema

_CSV_EXAMPLE: Final = (
    "day,calls,unpriced_calls,prompt_tokens,completion_tokens,cached_tokens,cache_write_tokens,"
    "cost_usd,list_usd\r\n"
    "2026-03-01,4971,0,61204118,1950233,20480000,0,181.350412000,181.350412000\r\n"
)

blueprint = ReadBlueprint("spend", __name__, description=f"Read spend by {', '.join(KEYS)}.")


@blueprint.route("/spend", methods=["GET"])
@blueprint.reads(
    READ_AUDITS,
    SpendSchema,
    operation="get_spend",
    description="Sorted by the keys, with totals of the whole range.",
)
@blueprint.also_csv(_CSV_EXAMPLE)
@blueprint.arguments(SpendQuerySchema, location="query")
def show(query: dict[str, Any]) -> dict[str, Any] | Response:
    """Get your spend by day of the calls, route, model, provider or environment."""
    wanted, limit, cursor = query["selection"], query["limit"], query.get("cursor")
    account_id = current_caller().account_id
    if query["format"] == CSV:
        return answer_spend_csv(account_id, wanted)
    if query["format"] == FOCUS:
        return answer_focus_csv(account_id, wanted, query["version"])
    after = cursor.values if cursor else None
    spend = sum_spend(get_session(), account_id, wanted, limit=limit + 1, after=after)
    found = [
        dict(zip(wanted.keys, line.key, strict=True)) | line.sums._asdict() for line in spend.groups
    ]

    def cursor_after(last: Mapping[str, Any]) -> str:
        values = tuple(last[key] for key in wanted.keys)
        return make_spend_cursor(SpendCursor(wanted.first, wanted.last, tuple(wanted.keys), values))

    return {
        **page("spend", found, limit, cursor_after),
        "first": wanted.first,
        "last": wanted.last,
        "group_by": wanted.keys,
        "totals": spend.totals,
        "plan_usage": sum_plan_usage(get_session(), account_id, (wanted.first, wanted.last)),
        "after_today": sum_future_calls(get_session(), account_id, utc_now().date())._asdict(),
    }
