"""Read audits: the list, and one audit's status, findings and report."""

from typing import Any, Final

from flask import Response

from service.errors import NotFoundError
from service.models.audits.audit_lists import AuditFilter, find_findings, list_audits
from service.models.audits.audits import (
    FAILED,
    QUEUED,
    Audit,
    Cursor,
    find_audit,
    find_document,
)
from service.models.audits.queue_order import count_ahead
from service.web.auth.callers import current_caller
from service.web.auth.scopes import READ_AUDITS, READ_FINDINGS, SCOPES
from service.web.http.current import current_config, get_connection, get_session
from service.web.http.paths import AUDIT_ID_DOCUMENT
from service.web.openapi.reading import NO_AUDIT, READ_ERRORS, SESSION_ERRORS, ReadBlueprint
from service.web.openapi.report_schema import REPORT_REFERENCE
from service.web.schemas.audits import (
    AuditListQuerySchema,
    AuditListSchema,
    AuditStatusSchema,
    AuditSummarySchema,
    FindingListSchema,
    FindingSchema,
    columns_of,
)
from service.web.schemas.cursors import make_cursor, page

_AUDIT_ERRORS: Final = {**READ_ERRORS, 404: NO_AUDIT}
_REPORT_ERRORS: Final = {
    **READ_ERRORS,
    404: "Your account has no audit with this ID, or its report isn't ready or was deleted.",
}
_AUDIT_COLUMNS: Final = columns_of(AuditSummarySchema)
_FINDING_COLUMNS: Final = columns_of(FindingSchema)
blueprint = ReadBlueprint("audits", __name__, description="Read audits, findings and reports.")


@blueprint.route("/audits", methods=["GET"])
@blueprint.reads(
    READ_AUDITS,
    AuditListSchema,
    operation="list_audits",
    description="Newest first. Counts and dollars only.",
)
@blueprint.arguments(AuditListQuerySchema, location="query")
def list_all(query: dict[str, Any]) -> dict[str, Any]:
    """List your audits."""
    limit = query["limit"]
    wanted = AuditFilter(
        limit + 1,
        query.get("status"),
        query.get("since"),
        query.get("cursor"),
        query.get("source"),
    )
    audits = list_audits(get_connection(), current_caller().account_id, wanted, _AUDIT_COLUMNS)
    return page(
        "audits",
        audits,
        limit,
        lambda last: make_cursor(Cursor(last["created_at"], last["id"])),
    )


@blueprint.route("/audits/<audit_id>", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@blueprint.reads(
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
@blueprint.reads(
    READ_FINDINGS,
    FindingListSchema,
    operation="list_findings",
    description="Ranked by monthly impact. Empty once the report of a batch was deleted.",
    errors=_AUDIT_ERRORS,
)
def findings(audit_id: str) -> dict[str, Any]:
    """List an audit's findings."""
    account_id = current_caller().account_id
    found = find_findings(get_connection(), account_id, audit_id, _FINDING_COLUMNS)
    if found is None:
        raise NotFoundError(NO_AUDIT)
    return {"audit_id": audit_id, "findings": found}


@blueprint.route("/audits/<audit_id>/report", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@blueprint.reads(
    SCOPES,
    REPORT_REFERENCE,
    operation="get_report",
    description="The complete report document.",
    errors=_REPORT_ERRORS,
)
def report(audit_id: str) -> Response:
    """Get an audit's full report."""
    account_id = current_caller().account_id
    is_found, document = find_document(get_session(), account_id, audit_id)
    if not is_found:
        raise NotFoundError(NO_AUDIT)
    if document is None:
        if _get_audit(audit_id).report_deleted_at is None:
            raise NotFoundError("This audit's report isn't ready yet.")
        days = current_config().report_retention_days
        raise NotFoundError(
            f"This audit's report was deleted: reports of batches are kept for {days} days."
        )
    return Response(document, mimetype="application/json")


@blueprint.route("/audits/<audit_id>/status", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@blueprint.reads(
    None,
    AuditStatusSchema,
    operation="get_status",
    description="Gains fields as the audit advances.",
    errors=SESSION_ERRORS,
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
    audit = find_audit(get_session(), current_caller().account_id, audit_id)
    if audit is None:
        raise NotFoundError(NO_AUDIT)
    return audit
