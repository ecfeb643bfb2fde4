"""Reading audits: the list, the status of one, the findings of one."""

from collections.abc import Sequence
from typing import Any, Final

from service.api.blueprint import Blueprint
from service.api.path_parameters import AUDIT_ID_DOCUMENT, check_audit_id
from service.auth import (
    EMAIL_HEADER_DOCUMENT,
    READ_AUDITS,
    READ_FINDINGS,
    credential_id,
    current_caller,
    require_login,
    require_scope,
)
from service.db import get_session
from service.errors import NotFoundError
from service.extensions import current_config, limiter
from service.models.audits import (
    FAILED,
    QUEUED,
    Audit,
    count_ahead,
    find_audit,
    list_audits,
    list_findings,
)
from service.schemas import (
    AuditListQuerySchema,
    AuditListSchema,
    AuditStatusSchema,
    FindingListSchema,
)

_ERRORS: Final = {
    401: "The read token is missing, mistyped or revoked.",
    403: "The token lacks the scope.",
    422: "A parameter is out of its range.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}
_STATUS_ERRORS: Final = {
    401: "Nobody is signed in, or somebody else than x-user-email names.",
    404: "No audit of the caller's has this id.",
    422: "This cannot be the id of an audit.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}

blueprint = Blueprint("audits", __name__, description="Audits and findings out.")


def _read_limit() -> str:
    return f"{current_config().read_limit_per_minute} per minute"


@blueprint.route("/audits", methods=["GET"])
@require_scope(READ_AUDITS)
@limiter.limit(_read_limit, key_func=credential_id)
@blueprint.documented(security="read_token", errors=_ERRORS)
@blueprint.arguments(AuditListQuerySchema, location="query")
@blueprint.response(200, AuditListSchema, description="Newest first; counts and dollars only.")
def list_all(query: dict[str, int]) -> dict[str, Sequence[Audit]]:
    """List the account's audits."""
    return {"audits": list_audits(get_session(), current_caller().account_id, query["limit"])}


@blueprint.route("/audits/<audit_id>/findings", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@require_scope(READ_FINDINGS)
@limiter.limit(_read_limit, key_func=credential_id)
@blueprint.documented(
    security="read_token", errors={**_ERRORS, 404: "No audit of the caller's has this id."}
)
@blueprint.response(200, FindingListSchema, description="Ranked by monthly impact.")
def findings(audit_id: str) -> dict[str, Any]:
    """List the findings of one audit."""
    audit = _get_audit(audit_id)
    return {"audit_id": audit.id, "findings": list_findings(get_session(), audit.id)}


@blueprint.route("/audits/<audit_id>/status", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@require_login
@limiter.limit(_read_limit, key_func=credential_id)
@blueprint.documented(security="session", parameters=[EMAIL_HEADER_DOCUMENT], errors=_STATUS_ERRORS)
@blueprint.response(200, AuditStatusSchema, description="Grows as the audit advances.")
def status(audit_id: str) -> dict[str, Any]:
    """Tell how far an audit is."""
    audit = _get_audit(audit_id)
    told: dict[str, Any] = {"audit_id": audit.id, "status": audit.status}
    if audit.status == QUEUED:
        return {**told, "queue_position": count_ahead(get_session(), audit)}
    if audit.valid_pct is not None:
        told["valid_pct"] = audit.valid_pct
    if audit.status == FAILED:
        told["error"] = audit.error
    return told


def _get_audit(audit_id: str) -> Audit:
    audit = find_audit(get_session(), current_caller().account_id, check_audit_id(audit_id))
    if audit is None:
        raise NotFoundError("No audit of yours has this id.")
    return audit
