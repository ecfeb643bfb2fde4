"""Turns on what other tools hook the providers' libraries with, each as its documentation says.

Their spans go nowhere: the exporters are in memory, or of an address where nobody listens.
"""

from __future__ import annotations

import importlib
import os
from typing import Any


def turn_on(name: str) -> None:
    _TOOLS[name]()


def _instrument(*classes: str) -> None:
    """Turn on instrumentors of the OpenTelemetry kind, with a provider that keeps nothing."""
    provider = importlib.import_module("opentelemetry.sdk.trace").TracerProvider()
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    memory = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    provider.add_span_processor(export.SimpleSpanProcessor(memory.InMemorySpanExporter()))
    for path in classes:
        module, _, kind = path.rpartition(".")
        instrumentor: Any = getattr(importlib.import_module(module), kind)
        instrumentor().instrument(tracer_provider=provider)


def _openinference() -> None:
    _instrument(
        "openinference.instrumentation.openai.OpenAIInstrumentor",
        "openinference.instrumentation.anthropic.AnthropicInstrumentor",
    )


def _opentelemetry() -> None:
    _instrument("opentelemetry.instrumentation.openai_v2.OpenAIInstrumentor")


def _traceloop() -> None:
    _instrument(
        "opentelemetry.instrumentation.openai.OpenAIInstrumentor",
        "opentelemetry.instrumentation.anthropic.AnthropicInstrumentor",
    )


def _sentry() -> None:
    sentry = importlib.import_module("sentry_sdk")
    sentry.init("http://key@127.0.0.1:9/1", traces_sample_rate=1.0, send_default_pii=True)


def _langfuse() -> None:
    os.environ["LANGFUSE_TRACING_ENABLED"] = "true"
    langfuse = importlib.import_module("langfuse")
    langfuse.Langfuse(public_key="pk", secret_key="sk", base_url="http://127.0.0.1:9")
    importlib.import_module("langfuse.openai")


def _openlit() -> None:
    openlit = importlib.import_module("openlit")
    openlit.init(otlp_endpoint="http://127.0.0.1:9", disable_metrics=True)


def _wrapt() -> None:
    """As OpenInference and others hook a client class, with what they do it with."""
    wrapt, openai = importlib.import_module("wrapt"), importlib.import_module("openai")
    base = importlib.import_module("openai._base_client")

    def call(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        assert instance is not None
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(openai, "OpenAI.request", call)
    wrapt.wrap_function_wrapper(openai, "AsyncOpenAI.request", call)
    wrapt.wrap_function_wrapper(base, "SyncAPIClient.request", call)


_TOOLS = {
    "openinference": _openinference,
    "opentelemetry": _opentelemetry,
    "traceloop": _traceloop,
    "sentry": _sentry,
    "langfuse": _langfuse,
    "openlit": _openlit,
    "wrapt": _wrapt,
}
