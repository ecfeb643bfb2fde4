"""POST /api/v1/account-audits and /span-imports: audit or import calls now, instead of later."""

from typing import Any, Final

from service.errors import InvalidRequestError
from service.models.audits.audits import ACCOUNT
from service.models.calls.account_audits import queue_account_audit
from service.models.imports.span_batches import request_import
from service.web.auth.callers import (
    EMAIL_HEADER_DOCUMENT,
    credential_id,
    current_caller,
    require_login,
)
from service.web.http.conditional import LIMIT_HEADERS
from service.web.http.current import current_config, current_queues, get_session
from service.web.http.limits import limiter, per_minute
from service.web.http.paths import API_PREFIX
from service.web.openapi.blueprint import Blueprint
from service.web.openapi.reading import SESSION_ERRORS
from service.web.schemas.audits import AccountAuditQuerySchema, AccountAuditSchema, SpanImportSchema

NO_CALLS: Final = "Your account has no calls yet. Send a batch or upload a log first."
_ERRORS: Final = {
    **{status: text for status, text in SESSION_ERRORS.items() if status != 404},
    403: "The request came from another site.",
    422: "The window is unknown, or your account has no calls yet.",
}
_IMPORT_ERRORS: Final = {status: text for status, text in _ERRORS.items() if status != 422}

blueprint = Blueprint("account_audits", __name__, description="Audit or import calls now.")


@blueprint.route("/account-audits", methods=["POST"])
@require_login
@limiter.limit(per_minute("read_limit_per_minute"), key_func=credential_id)
@blueprint.documented(
    operation="audit_account",
    security="session",
    parameters=[EMAIL_HEADER_DOCUMENT],
    errors=_ERRORS,
    headers=LIMIT_HEADERS,
)
@blueprint.arguments(AccountAuditQuerySchema, location="query")
@blueprint.response(
    202,
    AccountAuditSchema,
    headers=LIMIT_HEADERS,
    description="Queued, or already queued or running. It takes no credit.",
)
def create(query: dict[str, Any]) -> dict[str, Any]:
    """Audit your account's calls."""
    session, account_id = get_session(), current_caller().account_id
    audit_id = queue_account_audit(session.connection(), account_id, query["window_days"])
    if audit_id is None:
        raise InvalidRequestError(NO_CALLS)
    session.commit()
    current_queues().enqueue_audit(audit_id, ACCOUNT)
    status_url = f"{current_config().base_url}{API_PREFIX}/audits/{audit_id}/status"
    return {"audit_id": audit_id, "status_url": status_url}


@blueprint.route("/span-imports", methods=["POST"])
@require_login
@limiter.limit(per_minute("read_limit_per_minute"), key_func=credential_id)
@blueprint.documented(
    operation="import_spans",
    security="session",
    parameters=[EMAIL_HEADER_DOCUMENT],
    errors=_IMPORT_ERRORS,
    headers=LIMIT_HEADERS,
)
@blueprint.response(
    202,
    SpanImportSchema,
    headers=LIMIT_HEADERS,
    description="The calls are imported within seconds.",
)
def import_spans() -> dict[str, Any]:
    """Import your OpenTelemetry spans now."""
    session = get_session()
    calls = request_import(session, current_caller().account_id)
    session.commit()
    return {"calls": calls}
