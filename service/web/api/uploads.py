"""POST /api/v1/audits: an uploaded log, and one credit, become a queued audit."""

from typing import Any, Final

from service.web.auth.callers import EMAIL_HEADER_DOCUMENT, require_login
from service.web.http.current import current_config
from service.web.http.paths import API_PREFIX
from service.web.intake import accept_upload, bounded_upload, limit_uploads
from service.web.intake.idempotency import HEADER_DOCUMENT, idempotency_key
from service.web.openapi.blueprint import Blueprint
from service.web.schemas.ingest import UploadedSchema

_ERRORS: Final = {
    400: "The body is no multipart/form-data or broke off, or a header is malformed.",
    401: "Nobody is signed in, or somebody else than x-user-email names.",
    402: "No credit is left; `payment_links` say where to buy one.",
    403: "Another site's page made the browser send this.",
    413: "The file is too large, packed or unpacked.",
    415: "The body is not multipart/form-data.",
    422: "The file is in none of the formats or breaks the counts-only contract: the message says"
    " what was expected. Or the Idempotency-Key was used for another file.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting, or has no room for the file.",
}
_FILE_DOCUMENT: Final = {
    "type": "string",
    "format": "binary",  # for tools that know no contentMediaType
    "contentMediaType": "application/octet-stream",
    "description": "OpenAI-style or Anthropic-style JSON Lines, or one JSON array of either, or CSV"
    " headed by the record's field names; each may be packed with gzip.",
}
_BODY_DOCUMENT: Final = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["file"],
                "properties": {"file": _FILE_DOCUMENT},
                "additionalProperties": False,
            }
        }
    },
}

blueprint = Blueprint("uploads", __name__, description="Files in.")


@blueprint.route("/audits", methods=["POST"])
@limit_uploads
@require_login
@bounded_upload
@blueprint.documented(
    operation="upload_log",
    security="session",
    parameters=[HEADER_DOCUMENT, EMAIL_HEADER_DOCUMENT],
    requestBody=_BODY_DOCUMENT,
    errors=_ERRORS,
)
@blueprint.alt_response(200, schema=UploadedSchema, description="Uploaded before.", success=True)
@blueprint.response(201, UploadedSchema, description="Accepted; a credit is used.")
def create() -> Any:
    """Audit an uploaded log."""
    accepted = accept_upload(idempotency_key())
    base_url = current_config().base_url
    status_url = f"{base_url}{API_PREFIX}/audits/{accepted.audit_id}/status"
    body = {**accepted._asdict(), "status_url": status_url}
    return body, 200 if accepted.replayed else 201
