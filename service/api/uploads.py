"""POST /api/v1/audits: an uploaded log, and one credit, become a queued audit."""

from typing import Any, Final

from service.api.acceptance import withdrawn_if_absent, withdrawn_on_error
from service.api.blueprint import Blueprint
from service.api.idempotency import HEADER_DOCUMENT, idempotency_key
from service.auth import EMAIL_HEADER_DOCUMENT, current_caller, limit_by_caller, require_login
from service.db import get_session
from service.errors import API_PREFIX, InvalidRequestError, PaymentRequiredError
from service.extensions import current_config, current_queues, limiter
from service.models.audits import (
    RAW_FOLDER,
    UPLOAD,
    Audit,
    KeyTakenError,
    Replay,
    add_audit,
    find_replay,
)
from service.models.base import new_id
from service.models.credits import NoCreditError, claim_credit, count_free_credits
from service.payments.links import payment_links
from service.schemas import UploadedSchema
from service.uploads import ReceivedFile, bounded_upload, received_file, store_log

ROUTE: Final = "audits"  # the namespace of this route's idempotency keys
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


def _limit() -> str:
    return f"{current_config().upload_limit_per_minute} per minute"


@blueprint.route("/audits", methods=["POST"])
@limiter.limit(_limit, key_func=limit_by_caller)
@require_login
@bounded_upload
@blueprint.documented(
    security="session",
    parameters=[HEADER_DOCUMENT, EMAIL_HEADER_DOCUMENT],
    requestBody=_BODY_DOCUMENT,
    errors=_ERRORS,
)
@blueprint.alt_response(200, schema=UploadedSchema, description="Uploaded before.", success=True)
@blueprint.response(201, UploadedSchema, description="Accepted; a credit is used.")
def create() -> Any:
    """Audit an uploaded log."""
    account_id, key = current_caller().account_id, idempotency_key()
    earlier = _admit(account_id, key)
    with received_file() as upload:
        if earlier is not None:
            return _replay(earlier, upload)
        audit = _store(upload, account_id)
        try:
            with withdrawn_on_error(audit.blob_key):
                _claim(audit, key, upload)
        except KeyTakenError as taken:
            return _replay(taken.earlier, upload)
    with withdrawn_if_absent(audit):
        get_session().commit()
    current_queues().enqueue_audit(audit.id, UPLOAD)
    return _answer(audit.id, replayed=False)


def _admit(account_id: str, key: str | None) -> Replay | None:
    """What the key led to before, or nothing where a credit is free; else nobody reads the body."""
    session = get_session()
    # Counted first: whoever took the last credit under this very key has committed both by then.
    has_credit = count_free_credits(session, account_id) > 0
    earlier = None if key is None else find_replay(session, account_id, ROUTE, key)
    session.rollback()  # gives the connection back before the body is read
    if earlier is None and not has_credit:
        raise _payment_required(account_id)
    return earlier


def _store(upload: ReceivedFile, account_id: str) -> Audit:
    audit_id = new_id()
    blob_key = f"{RAW_FOLDER}/{audit_id}.jsonl"
    return Audit(
        id=audit_id,
        account_id=account_id,
        source=UPLOAD,
        blob_key=blob_key,
        size_bytes=upload.size,
        records=store_log(upload, blob_key),
    )


def _claim(audit: Audit, key: str | None, upload: ReceivedFile) -> None:
    session = get_session()
    add_audit(session, audit, ROUTE, key, body_hash=upload.sha256)
    try:
        claim_credit(session, audit.account_id, audit.id)
    except NoCreditError:
        raise _payment_required(audit.account_id) from None


def _replay(earlier: Replay, upload: ReceivedFile) -> tuple[dict[str, Any], int]:
    if earlier.body_hash != upload.sha256:
        raise InvalidRequestError("This Idempotency-Key was used for another file.")
    return _answer(earlier.audit_id, replayed=True), 200


def _answer(audit_id: str, *, replayed: bool) -> dict[str, Any]:
    base_url = current_config().base_url.rstrip("/")
    status_url = f"{base_url}{API_PREFIX}/audits/{audit_id}/status"
    return {"audit_id": audit_id, "replayed": replayed, "status_url": status_url}


def _payment_required(account_id: str) -> PaymentRequiredError:
    links = payment_links(current_config(), account_id)
    return PaymentRequiredError(
        "An upload needs an audit credit, and this account has none left.",
        details={"payment_links": links},
    )
