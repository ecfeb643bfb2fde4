"""POST /api/v1/audits: queue an audit of an uploaded log, for one credit."""

from typing import Any, Final

from detectors.contract import PROVIDER_PATTERN
from detectors.formats import JSON_STYLES
from service.models.audits.idempotency import KeyTakenError
from service.web.auth.callers import EMAIL_HEADER_DOCUMENT, require_login
from service.web.http.current import current_config, current_queues, get_session
from service.web.http.paths import API_PREFIX
from service.web.intake.gates import (
    HEADER_DOCUMENT,
    admit_upload,
    bounded_upload,
    capped_upload,
    idempotency_key,
    limit_uploads,
)
from service.web.intake.processor_time import limit_refused_files
from service.web.intake.receiving import MAX_FIELD_BYTES, MAX_LABEL_LENGTH, MAX_MAPPED
from service.web.intake.storing import stored_upload
from service.web.openapi.blueprint import Blueprint
from service.web.schemas.ingest import UploadedSchema

_ERRORS: Final = {
    400: "The body isn't valid multipart/form-data or is incomplete, or a header is malformed.",
    401: "You aren't signed in, or x-user-email names a different account.",
    402: "You have no credits left, or your plan's storage is full. `payment_links` lists where to"
    " buy more.",
    403: "The request came from another site.",
    413: "The file is too large, compressed or uncompressed.",
    415: "The content type isn't multipart/form-data.",
    422: "The file isn't in a supported format or breaks the counts-only contract; the message says"
    " what we expected. Or its columns don't fit `map`. Or the Idempotency-Key was already used for"
    " a different file or mapping.",
    429: "The rate limit is exceeded, another file of yours is still being checked, your plan's"
    " number of queued audits is reached, or your failed uploads or rejected files took too much"
    " processing time today.",
    503: "The service is busy or restarting, or storage is full.",
}
_FILE_DOCUMENT: Final = {
    "type": "string",
    "format": "binary",  # for tools without support for contentMediaType
    "contentMediaType": "application/octet-stream",
    "description": f"{JSON_STYLES} JSON Lines, a JSON array of either, or CSV with"
    " a header row of field names. Gzip is supported.",
}
_LABEL_DOCUMENT: Final = {
    "type": "string",
    "maxLength": MAX_LABEL_LENGTH,
    "description": "Your name for the file, shown with its report. We don't store the file's own"
    " name.",
}
_MAP_DOCUMENT: Final = {
    "type": "array",
    "items": {"type": "string", "maxLength": MAX_FIELD_BYTES},
    "maxItems": MAX_MAPPED,
    "description": "For a CSV with other column names: one part per column, `theirs=ours`, such as"
    " `created_at=ts`; `theirs=` drops the column. Name a column by its header or its position,"
    " such as `#3`. Columns that are neither mapped nor dropped are rejected.",
}
_PROVIDER_DOCUMENT: Final = {
    "type": "string",
    "pattern": PROVIDER_PATTERN.replace("\\Z", "$"),
    "description": "The model provider of every call, for a CSV without such a column.",
}
_BODY_DOCUMENT: Final = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["file"],
                "properties": {
                    "file": _FILE_DOCUMENT,
                    "label": _LABEL_DOCUMENT,
                    "map": _MAP_DOCUMENT,
                    "provider": _PROVIDER_DOCUMENT,
                },
                "additionalProperties": False,
            }
        }
    },
}

blueprint = Blueprint("uploads", __name__, description="Upload log files.")


@blueprint.route("/audits", methods=["POST"])
@limit_uploads
@limit_refused_files
@require_login
@bounded_upload
@capped_upload
@blueprint.documented(
    operation="upload_log",
    security="session",
    parameters=[HEADER_DOCUMENT, EMAIL_HEADER_DOCUMENT],
    requestBody=_BODY_DOCUMENT,
    errors=_ERRORS,
)
@blueprint.alt_response(200, schema=UploadedSchema, description="Already uploaded.", success=True)
@blueprint.response(201, UploadedSchema, description="Accepted. One credit is used.")
def create() -> Any:
    """Audit an uploaded log."""
    try:
        with stored_upload(admit_upload(idempotency_key())) as audit:
            get_session().commit()
    except KeyTakenError as taken:
        return _accepted(taken.earlier.audit_id, is_replayed=True), 200
    current_queues().enqueue_audit(audit.id, audit.source)
    return _accepted(audit.id, is_replayed=False), 201


def _accepted(audit_id: str, *, is_replayed: bool) -> dict[str, Any]:
    status_url = f"{current_config().base_url}{API_PREFIX}/audits/{audit_id}/status"
    return {"audit_id": audit_id, "replayed": is_replayed, "status_url": status_url}
