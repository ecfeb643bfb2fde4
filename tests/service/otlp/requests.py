"""Requests of spans for tests: attributes in, protobuf or JSON out."""

import json
import zlib
from base64 import b64encode
from itertools import count
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.models.imports.span_keys import find_counted, read_keys
from service.web.otlp.requests import READERS, Calls, read_request

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
CHAT: dict[str, Any] = {
    "gen_ai.provider.name": "openai",
    "gen_ai.response.model": "gpt-4o-mini",
    "gen_ai.usage.input_tokens": 1200,
    "gen_ai.usage.output_tokens": 85,
}
START = 1_772_442_900_000_000_000
_numbers = count(1)


def span(attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A span of OTLP's JSON encoding, with IDs of its own unless given."""
    number = next(_numbers)
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "startTimeUnixNano": str(START),
        "endTimeUnixNano": str(START + 1_250_000_000),
        "attributes": [attribute(name, value) for name, value in attributes.items()],
        **fields,
    }


def attribute(name: str, value: Any) -> dict[str, Any]:
    return {"key": name, "value": _value(value)}


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [attribute(*each) for each in value.items()]}}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def document(
    *spans: dict[str, Any], scope: str = "mine", version: str = "1", **resource: str
) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in resource.items()}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [attribute(*each) for each in named.items()]},
                "scopeSpans": [{"scope": {"name": scope, "version": version}, "spans": [*spans]}],
            }
        ]
    }


def as_json(request: dict[str, Any]) -> bytes:
    return json.dumps(request).encode()


def as_protobuf(request: dict[str, Any]) -> bytes:
    """The same request in protobuf, whose IDs are bytes."""
    given = json.loads(json.dumps(request))  # two spans may be one object
    for resource_spans in given["resourceSpans"]:
        for each in (each for of in resource_spans["scopeSpans"] for each in of["spans"]):
            for name in each.keys() & {"traceId", "spanId", "parentSpanId"}:
                each[name] = b64encode(bytes.fromhex(each[name])).decode()
    message = ParseDict(given, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    return bytes(message.SerializeToString())


def read(body: bytes, kind: str = PROTOBUF, tag_attribute: str | None = None) -> Calls:
    return read_request(body, READERS[kind], tag_attribute)


def records_of(calls: Calls) -> list[dict[str, Any]]:
    """The records that count, as they are stored."""
    lines = zlib.decompress(calls.lines).splitlines() if calls.lines else []
    counted = find_counted(read_keys(calls.keys), calls.links)
    return [json.loads(line) for at, line in enumerate(lines) if at in counted]
