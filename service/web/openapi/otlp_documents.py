"""What /openapi.json says of OTLP requests, whose shapes the OpenTelemetry project defines."""

from collections.abc import Mapping
from typing import Any, Final

_PROTO: Final = "https://github.com/open-telemetry/opentelemetry-proto"
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_SPAN: Final = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "startTimeUnixNano": "1772442900000000000",
    "endTimeUnixNano": "1772442901250000000",
    "attributes": [
        {"key": "gen_ai.provider.name", "value": {"stringValue": "openai"}},
        {"key": "gen_ai.response.model", "value": {"stringValue": "gpt-4o-mini"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "1200"}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "85"}},
    ],
}
_TRACES: Final = {
    "resourceSpans": [
        {
            "resource": {
                "attributes": [{"key": "service.name", "value": {"stringValue": "support-bot"}}]
            },
            "scopeSpans": [{"scope": {"name": "my-instrumentation"}, "spans": [_SPAN]}],
        }
    ]
}
CONTENT_ENCODING: Final = {
    "in": "header",
    "name": "Content-Encoding",
    "required": False,
    "description": "The size limit also applies to the uncompressed body.",
    "schema": {"type": "string", "enum": ["gzip", "identity"]},
}
TAG_ATTRIBUTE: Final[dict[str, Any]] = {
    "in": "header",
    "name": "X-Tag-Attribute",
    "required": False,
    "description": "The attribute that becomes the tag of a call, instead of the one in the"
    " account's settings or `service.name`.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 100},
}
ERRORS: Final = {
    400: "The body isn't valid OTLP, or a header is malformed.",
    401: "The ingest key is missing, invalid, expired or revoked.",
    402: "The subscription has lapsed, or your plan's storage is full.",
    403: "The request came from another site.",
    413: "The body is too large, or has too many spans.",
    415: "The content type isn't protobuf or JSON, or the encoding isn't gzip.",
    429: "The rate limit is exceeded, or your plan's number of queued audits is reached.",
    503: "The service is busy or restarting.",
}


def request_body(kind: str) -> dict[str, Any]:
    """Document a request, `Trace`, `Logs` or `Metrics`."""
    example = _TRACES if kind == "Trace" else {f"resource{kind}": []}
    return {
        "required": True,
        "description": f"An [Export{kind}ServiceRequest]({_PROTO}) in JSON, or in protobuf as"
        " `application/x-protobuf`, as exporters send it.",
        # Generators of clients know no protobuf.
        "content": {"application/json": {"schema": {"type": "object"}, "example": example}},
    }


def response(rejected: str, when: str, headers: Mapping[str, Any]) -> dict[str, Any]:
    """Document a success; `rejected` is the field that counts what was not accepted."""
    part = {rejected: {"type": "string"}, "errorMessage": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {"partialSuccess": {"type": "object", "properties": part}},
    }
    content = {"application/json": {"schema": schema, "example": {}}}
    return {
        "description": when,
        "headers": dict(headers),
        "content": {"application/x-protobuf": _BINARY, **content},
    }


def status_content(message: str) -> dict[str, Any]:
    """Document an error, which is a `google.rpc.Status` in the encoding of the request."""
    fields = {"code": {"type": "integer"}, "message": {"type": "string"}}
    schema = {"type": "object", "properties": fields, "required": ["code", "message"]}
    example = {"code": 3, "message": message}
    content = {"application/json": {"schema": schema, "example": example}}
    return {"application/x-protobuf": _BINARY, **content}
