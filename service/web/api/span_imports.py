"""POST /api/v1/span-imports: import the account's spans that wait, instead of within the hour."""

from typing import Any, Final

from service.models.imports.span_batches import request_import
from service.web.auth.callers import (
    EMAIL_HEADER_DOCUMENT,
    credential_id,
    current_caller,
    require_login,
)
from service.web.http.conditional import LIMIT_HEADERS
from service.web.http.current import get_session
from service.web.http.limits import limiter, per_minute
from service.web.openapi.blueprint import Blueprint
from service.web.openapi.reading import SESSION_ERRORS
from service.web.schemas.imports import SpanImportSchema

_ERRORS: Final = {
    **{status: text for status, text in SESSION_ERRORS.items() if status not in (404, 422)},
    403: "The request came from another site.",
}

blueprint = Blueprint("span_imports", __name__, description="Import OpenTelemetry spans now.")


@blueprint.route("/span-imports", methods=["POST"])
@require_login
@limiter.limit(per_minute("read_limit_per_minute"), key_func=credential_id)
@blueprint.documented(
    operation="import_spans",
    security="session",
    parameters=[EMAIL_HEADER_DOCUMENT],
    errors=_ERRORS,
    headers=LIMIT_HEADERS,
)
@blueprint.response(
    202,
    SpanImportSchema,
    headers=LIMIT_HEADERS,
    description="The calls are imported within seconds.",
)
def create() -> dict[str, Any]:
    """Import your spans now."""
    session = get_session()
    calls = request_import(session, current_caller().account_id)
    session.commit()
    return {"calls": calls}
