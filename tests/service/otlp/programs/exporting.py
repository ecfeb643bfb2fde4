"""What the programs share: the exporter that every user of OpenTelemetry has, and the calls."""

import os
from typing import Any

STUB = os.environ["STUB_URL"]
MESSAGES = [{"role": "user", "content": "canary-question"}]


def provide() -> Any:
    """Set up the SDK with the OTLP exporter; its settings are the standard variables."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"deployment.environment.name": "staging"})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


def call_openai() -> None:
    """A chat, a streamed chat, a response and embeddings."""
    from openai import OpenAI

    client = OpenAI(api_key="sk-stub", base_url=f"{STUB}/v1")
    client.chat.completions.create(model="gpt-4o", messages=MESSAGES, max_tokens=64)
    usage = {"include_usage": True}
    for _ in client.chat.completions.create(
        model="gpt-4o", messages=MESSAGES, stream=True, stream_options=usage
    ):
        pass
    client.responses.create(model="gpt-4o", input="canary-question", max_output_tokens=32)
    client.embeddings.create(model="text-embedding-3-small", input="canary-question")


def call_anthropic() -> None:
    """A message and a streamed message."""
    from anthropic import Anthropic

    client = Anthropic(api_key="sk-stub", base_url=STUB)
    client.messages.create(model="claude-sonnet-4-6", messages=MESSAGES, max_tokens=64)
    with client.messages.stream(
        model="claude-sonnet-4-6", messages=MESSAGES, max_tokens=64
    ) as stream:
        for _ in stream:
            pass
