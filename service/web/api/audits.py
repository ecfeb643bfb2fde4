"""Read audits: the list, and one audit's status, findings and report."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from flask import Response

from service.errors import NotFoundError
from service.models.audits.audits import (
    FAILED,
    QUEUED,
    Audit,
    Cursor,
    Selection,
    find_audit,
    find_document,
    find_findings,
    list_audits,
)
from service.models.audits.turns import count_ahead
from service.web.auth.callers import (
    EMAIL_HEADER_DOCUMENT,
    credential_id,
    current_caller,
    require_login,
    require_scope,
)
from service.web.auth.scopes import READ_AUDITS, READ_FINDINGS, SCOPES
from service.web.http.conditional import (
    ETAG_HEADERS,
    IF_NONE_MATCH_DOCUMENT,
    LIMIT_HEADERS,
    NOT_MODIFIED,
    add_conditions,
    add_limit_headers,
)
from service.web.http.current import get_session
from service.web.http.limits import limiter, per_minute
from service.web.http.paths import AUDIT_ID_DOCUMENT, check_audit_id
from service.web.openapi.blueprint import Blueprint
from service.web.openapi.report_schema import REPORT_REFERENCE
from service.web.schemas.audits import (
    AuditListQuerySchema,
    AuditListSchema,
    AuditStatusSchema,
    AuditSummarySchema,
    FindingListSchema,
)
from service.web.schemas.cursors import make_cursor

_NOT_FOUND: Final = "Your account has no audit with this ID."
_ERRORS: Final = {
    401: "The read token is missing, invalid, expired or revoked.",
    403: "The token doesn't have the required scope.",
    422: "A parameter is invalid; the message names it.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}
_STATUS_ERRORS: Final = {
    401: "You aren't signed in, or x-user-email names a different account.",
    404: _NOT_FOUND,
    422: "Invalid audit ID.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}

_AUDIT_ERRORS: Final = {**_ERRORS, 404: _NOT_FOUND}
_REPORT_ERRORS: Final = {
    **_ERRORS,
    404: "Your account has no audit with this ID, or its report isn't ready.",
}
blueprint = Blueprint("audits", __name__, description="Read audits, findings and reports.")


@blueprint.after_request  # type: ignore[untyped-decorator]
def _describe_answer(response: Response) -> Response:
    return add_limit_headers(add_conditions(response))


def read_endpoint(
    scopes: str | Sequence[str] | None,
    schema: Any,
    *,
    operation: str,
    description: str,
    errors: Mapping[int, str] = _ERRORS,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Require a credential, apply the read limit and document the response.

    The credential is a token with these scopes or, without scopes, a web session.
    """
    needed = (scopes,) if isinstance(scopes, str) else tuple(scopes or ())
    by_email = [] if needed else [EMAIL_HEADER_DOCUMENT]
    decorators = (
        require_scope(*needed) if needed else require_login,
        limiter.limit(per_minute("read_limit_per_minute"), key_func=credential_id),
        blueprint.documented(
            operation=operation,
            security=("read_token", "access_token") if needed else "session",
            scopes=needed,
            parameters=[*by_email, IF_NONE_MATCH_DOCUMENT],
            errors=errors,
            headers=LIMIT_HEADERS,
        ),
        blueprint.alt_response(304, headers=ETAG_HEADERS, description=NOT_MODIFIED, success=True),
        blueprint.response(200, schema, headers=ETAG_HEADERS, description=description),
    )

    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        return reduce(lambda made, decorator: decorator(made), reversed(decorators), view)

    return decorate


@blueprint.route("/audits", methods=["GET"])
@read_endpoint(
    READ_AUDITS,
    AuditListSchema,
    operation="list_audits",
    description="Newest first. Counts and dollars only.",
)
@blueprint.arguments(AuditListQuerySchema, location="query")
def list_all(query: dict[str, Any]) -> dict[str, Any]:
    """List your audits."""
    limit = query["limit"]
    # One extra row shows whether there is another page.
    wanted = Selection(limit + 1, query.get("status"), query.get("since"), query.get("cursor"))
    audits = list_audits(get_session(), current_caller().account_id, wanted)
    if len(audits) <= limit:
        return {"audits": audits}
    last = audits[limit - 1]
    return {
        "audits": audits[:limit],
        "next_cursor": make_cursor(Cursor(last.created_at, last.id)),
    }


@blueprint.route("/audits/<audit_id>", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@read_endpoint(
    READ_AUDITS,
    AuditSummarySchema,
    operation="get_audit",
    description="The same fields as in the list.",
    errors=_AUDIT_ERRORS,
)
def show(audit_id: str) -> Audit:
    """Get one audit."""
    return _get_audit(audit_id)


@blueprint.route("/audits/<audit_id>/findings", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@read_endpoint(
    READ_FINDINGS,
    FindingListSchema,
    operation="list_findings",
    description="Ranked by monthly impact.",
    errors=_AUDIT_ERRORS,
)
def findings(audit_id: str) -> dict[str, Any]:
    """List an audit's findings."""
    account_id = current_caller().account_id
    found = find_findings(get_session(), account_id, check_audit_id(audit_id))
    if found is None:
        raise NotFoundError(_NOT_FOUND)
    return {"audit_id": audit_id, "findings": found}


@blueprint.route("/audits/<audit_id>/report", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@read_endpoint(
    SCOPES,
    REPORT_REFERENCE,
    operation="get_report",
    description="The complete report document.",
    errors=_REPORT_ERRORS,
)
def report(audit_id: str) -> Response:
    """Get an audit's full report."""
    account_id = current_caller().account_id
    is_found, document = find_document(get_session(), account_id, check_audit_id(audit_id))
    if not is_found:
        raise NotFoundError(_NOT_FOUND)
    if document is None:
        raise NotFoundError("This audit's report isn't ready yet.")
    return Response(document, mimetype="application/json")


@blueprint.route("/audits/<audit_id>/status", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@read_endpoint(
    None,
    AuditStatusSchema,
    operation="get_status",
    description="Gains fields as the audit advances.",
    errors=_STATUS_ERRORS,
)
def status(audit_id: str) -> dict[str, Any]:
    """Get an audit's status."""
    audit = _get_audit(audit_id)
    fields: dict[str, Any] = {"audit_id": audit.id, "status": audit.status}
    if audit.status == QUEUED:
        return {**fields, "queue_position": count_ahead(get_session(), audit)}
    if audit.valid_pct is not None:
        fields["valid_pct"] = audit.valid_pct
    if audit.status == FAILED:
        fields["error"] = audit.error
    return fields


def _get_audit(audit_id: str) -> Audit:
    audit = find_audit(get_session(), current_caller().account_id, check_audit_id(audit_id))
    if audit is None:
        raise NotFoundError(_NOT_FOUND)
    return audit
