"""Calls dated after today: list them with a token, delete them with a session."""

from datetime import date
from typing import Any, Final

from service.models.base import utc_now
from service.models.calls.future_calls import (
    delete_future_calls,
    is_deleting,
    list_future_calls,
    sum_future_calls,
)
from service.models.identity.security_events import EventKind
from service.web.auth.callers import (
    EMAIL_HEADER_DOCUMENT,
    credential_id,
    current_caller,
    require_login,
)
from service.web.auth.scopes import READ_AUDITS
from service.web.auth.security_events import record_event
from service.web.http.conditional import LIMIT_HEADERS
from service.web.http.current import current_queues, get_session
from service.web.http.limits import limiter, per_minute
from service.web.openapi.reading import SESSION_ERRORS, ReadBlueprint
from service.web.schemas.spend import (
    DeletedFutureCallsSchema,
    FutureCallsQuerySchema,
    FutureCallsSchema,
)

_DELETE_ERRORS: Final = {
    **{status: text for status, text in SESSION_ERRORS.items() if status != 404},
    403: "The request came from another site.",
    422: "A parameter is invalid; the message names it.",
}

blueprint = ReadBlueprint(
    "future_calls", __name__, description="List and delete calls dated after today."
)


@blueprint.route("/future-calls", methods=["GET"])
@blueprint.reads(
    READ_AUDITS,
    FutureCallsSchema,
    operation="list_future_calls",
    description="They aren't included in your spend until that day.",
)
def show() -> dict[str, Any]:
    """List your calls that are dated after today."""
    session, account_id, today = get_session(), current_caller().account_id, utc_now().date()
    return {
        **sum_future_calls(session, account_id, today)._asdict(),
        "is_deleting": is_deleting(session, account_id),
        "lines": [line._asdict() for line in list_future_calls(session, account_id, today)],
    }


@blueprint.route("/future-calls", methods=["DELETE"])
@require_login
@limiter.limit(per_minute("read_limit_per_minute"), key_func=credential_id)
@blueprint.documented(
    operation="delete_future_calls",
    security="session",
    parameters=[EMAIL_HEADER_DOCUMENT],
    errors=_DELETE_ERRORS,
    headers=LIMIT_HEADERS,
)
@blueprint.arguments(FutureCallsQuerySchema, location="query")
@blueprint.response(
    202,
    DeletedFutureCallsSchema,
    headers=LIMIT_HEADERS,
    description="The calls are permanently deleted within a minute. Repeating it is safe.",
)
def delete(query: dict[str, Any]) -> dict[str, int]:
    """Delete your calls that are dated after today."""
    session, account_id = get_session(), current_caller().account_id
    days = (query.get("first", date.min), query.get("last", date.max))
    calls = delete_future_calls(session, account_id, utc_now().date(), days)
    if calls:
        record_event(EventKind.FUTURE_CALLS_DELETED, account_id, calls=calls)
        session.commit()
        current_queues().enqueue_compaction(account_id)
    return {"calls": calls}
