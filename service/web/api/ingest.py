"""POST /api/v1/ingest and /api/v2/ingest: queue an audit of a batch of usage records."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, TypeVar

from flask import jsonify

from detectors.formats import V1, V2, Version
from service.web.auth.callers import credential_id, require_key, require_subscription
from service.web.auth.caps import capped
from service.web.http.bodies import bounded_body, decode_body
from service.web.http.current import current_queues
from service.web.http.limits import client_address, limiter, per_minute
from service.web.intake.gates import HEADER_DOCUMENT, idempotency_key, replayable
from service.web.intake.storing import stored_batch
from service.web.openapi.blueprint import Blueprint, decorated
from service.web.schemas.ingest import AcceptedSchema, BatchSchema, BatchV2Schema, ReplayedSchema

_ERRORS: Final = {
    400: "The body isn't valid JSON, or a header is malformed.",
    401: "The ingest key is missing, invalid, expired or revoked.",
    402: "The subscription has lapsed, or your plan's storage is full. Ingest pauses until you"
    " renew or upgrade.",
    403: "The request came from another site.",
    413: "The batch has more than 5,000 records, or the body is too large.",
    415: "The content type isn't application/json, or the encoding isn't gzip.",
    422: "A record breaks the counts-only contract; the message names the field.",
    429: "The rate limit is exceeded, or your plan's number of queued audits is reached.",
    503: "The service is busy or restarting.",
}
_HEADER_DOCUMENTS: Final = [
    HEADER_DOCUMENT,
    {
        "in": "header",
        "name": "Content-Encoding",
        "required": False,
        "description": "The size limit also applies to the uncompressed body.",
        "schema": {"type": "string", "enum": ["gzip", "identity"]},
    },
]
_EXAMPLE: Final = {
    "records": [
        {
            "ts": "2026-03-02T09:15:00Z",
            "provider": "openai",
            "model": "gpt-4o-mini",
            "prompt_tokens": 1200,
            "completion_tokens": 85,
            "cached_tokens": 1024,
            "tag": "support-bot",
        }
    ]
}

_EXAMPLE_V2: Final = {
    "records": [
        {
            "ts": "2026-03-02T09:15:00Z",
            "provider": "anthropic",
            "model": "claude-sonnet-4-5",
            "prompt_tokens": 24000,
            "completion_tokens": 900,
            "cache_write_tokens": 20000,
            "cache_write_1h_tokens": 20000,
            "reasoning_tokens": 600,
            "web_searches": 2,
            "units": {"code_executions": 1},
            "billing": "metered",
            "environment": "production",
            "session_id": "chat-5f2c",
            "tag": "research",
        }
    ]
}

blueprint = Blueprint("ingest", __name__, description="Send usage records.")
F = TypeVar("F", bound=Callable[..., Any])


def _ingest_route(
    rule: str, operation: str, version: Version, schema: type[BatchSchema], example: Any
) -> Callable[[F], F]:
    """Return the decorators of a version's route, which differ in the record's schema only.

    The schema only documents the body: it would take twenty times as long as `decode_body`.
    """
    content = {"application/json": {"schema": schema, "example": example}}
    return decorated(
        blueprint.route(rule, methods=["POST"]),
        require_key,
        limiter.shared_limit(
            per_minute("ingest_key_limit_per_minute"), "ingest key", key_func=credential_id
        ),
        limiter.shared_limit(
            per_minute("ingest_ip_limit_per_minute"), "ingest address", key_func=client_address
        ),
        require_subscription,
        bounded_body(version.max_bytes),
        replayable,
        capped,
        blueprint.documented(
            operation=operation,
            security="ingest_key",
            parameters=_HEADER_DOCUMENTS,
            requestBody={"required": True, "content": content},
            errors=_ERRORS,
        ),
        blueprint.alt_response(
            200, schema=ReplayedSchema, description="Already processed.", success=True
        ),
        blueprint.response(201, AcceptedSchema, description="Accepted. The audit is running."),
    )


@_ingest_route("/v1/ingest", "ingest_batch", V1, BatchSchema, _EXAMPLE)
def ingest() -> Any:
    """Audit a batch of usage records."""
    return _ingest(V1)


@_ingest_route("/v2/ingest", "ingest_batch_v2", V2, BatchV2Schema, _EXAMPLE_V2)
def ingest_v2() -> Any:
    """Audit a batch of usage records with more fields."""
    return _ingest(V2)


def _ingest(version: Version) -> Any:
    with stored_batch(decode_body(version), idempotency_key()) as (audit, connection):
        connection.commit()
    current_queues().enqueue_audit(audit.id, audit.source)
    return jsonify(audit_id=audit.id, records=audit.records, replayed=False), HTTPStatus.CREATED
