"""Marks on charts, such as deploys: list them, and let a CI system add and remove them."""

from datetime import date
from typing import Any, Final

from service.errors import InvalidRequestError, NotFoundError
from service.models.base import utc_now
from service.models.operations.chart_marks import (
    TOO_MANY,
    ChartMark,
    add_mark,
    list_chart_marks,
    remove_mark,
)
from service.web.auth.callers import credential_id, current_caller, require_scope
from service.web.auth.scopes import READ_AUDITS, WRITE_MARKS
from service.web.http.conditional import LIMIT_HEADERS
from service.web.http.current import get_session
from service.web.http.limits import limiter, per_minute
from service.web.openapi.reading import READ_ERRORS, ReadBlueprint
from service.web.schemas.labels import read_label
from service.web.schemas.marks import MarkListSchema, MarkQuerySchema, MarkSchema, NewMarkSchema

_MARK_ID_DOCUMENT: Final = {
    "in": "path",
    "name": "mark_id",
    "description": "The ID that the list of marks has.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_NO_MARK: Final = "Your account has no mark with this ID."

blueprint = ReadBlueprint("marks", __name__, description="Deploys and other marks on charts.")


@blueprint.route("/marks", methods=["GET"])
@blueprint.reads(
    READ_AUDITS,
    MarkListSchema,
    operation="list_marks",
    description="Those that you noted. Fixes and unusual days aren't among them.",
)
@blueprint.arguments(MarkQuerySchema, location="query")
def list_all(query: dict[str, Any]) -> dict[str, Any]:
    """List your marks."""
    days = (query.get("first", date.min), query.get("last", date.max))
    return {"marks": list_chart_marks(get_session(), current_caller().account_id, days)}


@blueprint.route("/marks", methods=["POST"])
@require_scope(WRITE_MARKS)
@limiter.limit(per_minute("read_limit_per_minute"), key_func=credential_id)
@blueprint.documented(
    operation="add_mark",
    security="read_token",
    scopes=(WRITE_MARKS,),
    errors={
        **READ_ERRORS,
        400: "The body isn't valid JSON.",
        413: "The body is too large.",
        415: "The body isn't JSON.",
        422: "A field is invalid, or you have as many marks as you may have.",
    },
    headers=LIMIT_HEADERS,
)
@blueprint.arguments(NewMarkSchema)
@blueprint.response(
    201,
    MarkSchema,
    headers=LIMIT_HEADERS,
    description="Added. Repeating it returns the same mark.",
)
def add(fields: dict[str, Any]) -> ChartMark:
    """Mark a day, such as that of a deploy."""
    session, words = get_session(), read_label(fields, "words")
    if not words:
        raise InvalidRequestError("`words` must say what changed.")
    day = fields.get("day") or utc_now().date()
    mark = add_mark(session, current_caller().account_id, day, words)
    if mark is None:
        raise InvalidRequestError(TOO_MANY)
    session.commit()
    return mark


@blueprint.route("/marks/<mark_id>", methods=["DELETE"], parameters=[_MARK_ID_DOCUMENT])
@require_scope(WRITE_MARKS)
@limiter.limit(per_minute("read_limit_per_minute"), key_func=credential_id)
@blueprint.documented(
    operation="remove_mark",
    security="read_token",
    scopes=(WRITE_MARKS,),
    errors={**READ_ERRORS, 404: _NO_MARK, 422: "Invalid mark ID."},
    headers=LIMIT_HEADERS,
)
@blueprint.response(200, MarkSchema, headers=LIMIT_HEADERS, description="Removed.")
def remove(mark_id: str) -> ChartMark:
    """Remove a mark."""
    session = get_session()
    mark = remove_mark(session, current_caller().account_id, mark_id)
    if mark is None:
        raise NotFoundError(_NO_MARK)
    session.commit()
    return mark
