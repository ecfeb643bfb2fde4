"""Run agents of the frameworks against a stub of their providers, and keep their spans' shapes.

`make spans` records again; the environments come from the lock files in requirements/otlp. A shape
has names, numbers and labels of attributes, and in place of each text words of our own: it is
`shapes.jsonl`, with a line for each program and mode.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.web.otlp.attributes import CONTENT, READ
from service.web.otlp.content import has_text, published_event_name
from service.web.otlp.spans import SpanReading
from tests.client.environments import ROOT, environment_python
from tests.service.otlp.frameworks.stub import CANARY, provider_stub
from tests.service.otlp.recording import collector
from tests.service.otlp.requests import START, as_protobuf, attribute, document

FOLDER: Final = Path(__file__).parent
SHAPES: Final = FOLDER / "shapes.jsonl"
# Environments of Node, by the folders of their lock files.
NODES: Final = {"node": FOLDER, "newest": FOLDER / "newest"}
VAR: Final = ROOT / "var" / "otlp" / "frameworks"
TEXT: Final = "some text"
OFF, ON = "off", "on"
# Nothing is sent but the spans, and to nobody else.
_QUIET: Final = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "LANGSMITH_API_KEY": "k",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TRACELOOP_TELEMETRY": "false",
}
_KEYS: Final = {
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_REGION": "us-east-1",
    "AWS_SECRET_ACCESS_KEY": "k",
    "GOOGLE_API_KEY": "k",
    "GOOGLE_GENAI_USE_VERTEXAI": "0",
    "OPENAI_API_KEY": "k",
}
_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_LATEST: Final = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}
_CAPTURED: Final = {_CAPTURE: "span_only", **_LATEST}
_TRACED: Final = {"TRACELOOP_TRACE_CONTENT": "false"}
_HIDDEN: Final = {
    "OPENINFERENCE_HIDE_INPUTS": "true",
    "OPENINFERENCE_HIDE_OUTPUTS": "true",
    "OPENINFERENCE_HIDE_EMBEDDINGS_TEXT": "true",
}
_LANGSMITH: Final = {
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_OTEL_ENABLED": "true",
    "LANGSMITH_OTEL_ONLY": "true",
}
# An array is a list of its texts; a label is no longer than this.
_LONGEST_LABEL: Final = 60
_OURS: Final = CANARY.partition("-")[0]
_LABELS: Final = ("role", "type", "id", "name", "finish_reason", "tool_call_id", "call_id", "model")


class Framework(NamedTuple):
    """A program, its environment, and the settings that turn text off and on.

    `off` are the switches of docs/api/otlp.md; those of code are in the program.
    """

    name: str
    lock: str
    off: dict[str, str] = {}
    on: dict[str, str] = {}
    always: dict[str, str] = {}


FRAMEWORKS: Final = (
    Framework(
        "agent_framework",
        "agents",
        {"ENABLE_SENSITIVE_DATA": "false"},
        {"ENABLE_SENSITIVE_DATA": "true"},
    ),
    Framework("anthropic_sdk", "agents"),
    Framework("claude_agent", "kits", _HIDDEN),
    Framework("crewai", "crews", _HIDDEN),
    Framework("genai_anthropic", "agents", {_CAPTURE: "false"}, _CAPTURED),
    Framework("genai_openai", "agents", {_CAPTURE: "false"}, _CAPTURED),
    Framework(
        "google_adk",
        "kits",
        {"ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "false", _CAPTURE: "false"},
        {"ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "true", **_CAPTURED},
    ),
    Framework("langfuse", "agents"),
    Framework(
        "langsmith",
        "agents",
        {"LANGSMITH_HIDE_INPUTS": "true", "LANGSMITH_HIDE_OUTPUTS": "true"},
        always=_LANGSMITH,
    ),
    Framework("litellm", "crews", {}, _CAPTURED),
    Framework("llama_index", "crews", _HIDDEN),
    Framework("logfire", "observers"),
    Framework("openai_agents", "agents", _HIDDEN),
    Framework("openinference_anthropic", "agents", _HIDDEN),
    Framework("openinference_langchain", "agents", _HIDDEN),
    Framework("openllmetry", "crews", _TRACED),
    Framework("openllmetry_crewai", "crews", _TRACED),
    Framework("openllmetry_llama_index", "crews", _TRACED),
    Framework("openllmetry_openai_agents", "crews", _TRACED),
    Framework("openllmetry.cjs", "node"),
    Framework("openlit", "observers"),
    Framework("pydantic_ai", "agents"),
    Framework("sentry.cjs", "newest"),
    Framework(
        "strands",
        "agents",
        {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_unredacted_attributes="},
        _LATEST,
    ),
    Framework("vercel_ai.cjs", "node"),
    Framework("vercel_ai_7.mjs", "newest"),
)


def record(framework: Framework, mode: str) -> list[bytes]:
    """Return the requests that a program's exporter sends."""
    with provider_stub() as stub, collector() as (url, bodies):
        VAR.mkdir(parents=True, exist_ok=True)
        environment = {
            **_QUIET,
            **_KEYS,
            **framework.always,
            **(framework.on if mode == ON else framework.off),
            "CONTENT": mode,
            "GOOGLE_GEMINI_BASE_URL": stub,
            "HOME": str(VAR),
            "LANGSMITH_ENDPOINT": stub,
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_SERVICE_NAME": "checkout",
            "PATH": os.environ["PATH"],
            "STUB_URL": stub,
        }
        finished = subprocess.run(
            _command(framework),
            env=environment,
            cwd=VAR,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert finished.returncode == 0, finished.stderr[-3_000:]
    return bodies


def _command(framework: Framework) -> list[str]:
    if framework.lock not in NODES:
        python = environment_python(ROOT / "requirements" / "otlp" / f"{framework.lock}.lock")
        return [python, str(FOLDER / "framework_programs.py"), framework.name]
    folder = VAR / framework.lock
    folder.mkdir(exist_ok=True)
    for each in NODES[framework.lock].iterdir():
        if each.suffix in (".cjs", ".mjs", ".json"):
            shutil.copy(each, folder)
    if not (folder / "node_modules").exists():
        install = ("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps")
        subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=600)
    return ["node", str(folder / framework.name)]


# --- shapes


def shape_of(bodies: Sequence[bytes]) -> dict[str, Any]:
    """Return the spans of some requests in names, numbers and labels."""
    shape = _Shape()
    requests = [shape.add(ExportTraceServiceRequest.FromString(body)) for body in bodies]
    return {"scopes": shape.scopes, "requests": requests}


class _Shape:
    """Spans whose IDs are numbers, and whose times begin with the first one."""

    def __init__(self) -> None:
        self.scopes: list[list[str]] = []
        self._ids: dict[bytes, int] = {b"": 0}
        self._start = 0
        self._kinds = SpanReading()

    def add(self, request: ExportTraceServiceRequest) -> list[Any]:
        spans = []
        for resource_spans in request.resource_spans:
            for scope_spans in resource_spans.scope_spans:
                scope = [scope_spans.scope.name, scope_spans.scope.version]
                if scope not in self.scopes:
                    self.scopes.append(scope)
                for span in scope_spans.spans:
                    spans.append([self.scopes.index(scope), *self._read(span)])
        return spans

    def _read(self, span: Any) -> Iterator[Any]:
        self._start = self._start or span.start_time_unix_nano
        yield self._number(span.trace_id)
        yield self._number(span.span_id)
        yield self._number(span.parent_span_id)
        yield (span.start_time_unix_nano - self._start) // 1_000
        yield (span.end_time_unix_nano - self._start) // 1_000
        yield {each.key: self._value(each.key, each.value) for each in span.attributes}
        yield [
            [
                event.name,
                {
                    each.key: _words(each.value)
                    if published_event_name(event.name, each.key)
                    else None
                    for each in event.attributes
                },
            ]
            for event in span.events
        ]

    def _number(self, own: bytes) -> int:
        return self._ids.setdefault(own, len(self._ids))

    def _value(self, name: str, value: Any) -> Any:
        """Return a value; None for a text, a number or a list that is not read."""
        kind = self._kinds.kinds.get(name) or self._kinds.classify(name)
        if kind == CONTENT:
            return _words(value)
        plain = _plain(value)
        is_number = isinstance(plain, int | float)
        if name in READ or is_number and kind in (READ.get("gen_ai.usage.input_tokens"), 5):
            is_label = isinstance(plain, str) and (len(plain) <= _LONGEST_LABEL or plain[:1] == "{")
            return plain if is_number or is_label else None
        return None


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: _plain(each.value) for each in value.kvlist_value.values}
    return getattr(value, kind) if kind else None


def _words(value: Any) -> Any:
    """Return a value that may hold a text, with words of our own in its place."""
    plain = _plain(value)
    if not isinstance(plain, str):
        return _replaced(plain)
    if not has_text(plain):
        return plain
    try:
        return json.dumps(_replaced(json.loads(plain)), separators=(",", ":"))
    except ValueError:
        return TEXT


def _replaced(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _replaced(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each) for each in value]
    if isinstance(value, str) and has_text(value):
        is_label = key in _LABELS and len(value) <= _LONGEST_LABEL and _OURS not in value
        return value if is_label else TEXT
    return value


# --- and back


def requests_of(shape: dict[str, Any]) -> list[bytes]:
    """Return the requests of a shape in protobuf."""
    return [_encode(shape["scopes"], spans) for spans in shape["requests"]]


def _encode(scopes: Sequence[Sequence[str]], spans: Sequence[Any]) -> bytes:
    request = document(service_name="checkout")
    request["resourceSpans"][0]["scopeSpans"] = [
        {
            "scope": {"name": name, "version": version},
            "spans": [_span(*each) for scope, *each in spans if scope == number],
        }
        for number, (name, version) in enumerate(scopes)
    ]
    return as_protobuf(request)


def _span(
    trace: int, own: int, parent: int, start: int, end: int, attributes: Any, events: Any
) -> dict[str, Any]:
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{own:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "startTimeUnixNano": START + start * 1_000,
        "endTimeUnixNano": START + end * 1_000,
        "attributes": _attributes(attributes),
        "events": [{"name": name, "attributes": _attributes(values)} for name, values in events],
    }


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [attribute(name, _filled(value)) for name, value in values.items()]


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _filled(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each) for each in value]
    return TEXT if value is None else value


def read_shapes() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the recorded shapes, by program and mode."""
    lines = map(json.loads, SHAPES.read_text().splitlines()) if SHAPES.exists() else ()
    return {(line["program"], line["mode"]): line for line in lines}


def main(chosen: Sequence[str]) -> None:
    shapes = read_shapes()
    for framework in FRAMEWORKS:
        if chosen and framework.name not in chosen:
            continue
        for mode in (OFF, ON):
            name = {"program": framework.name, "mode": mode}
            shapes[framework.name, mode] = name | shape_of(record(framework, mode))
            sys.stdout.write(f"{framework.name}, text {mode}\n")
            sys.stdout.flush()
            lines = [json.dumps(shapes[key], separators=(",", ":")) for key in sorted(shapes)]
            SHAPES.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
