"""OpenLIT's instrumentations of openai and anthropic."""

import os

import openlit
from exporting import call_anthropic, call_openai

# It would override the argument, and knows only true and false.
os.environ.pop("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", None)
openlit.init(
    application_name="checkout",
    environment="staging",
    otlp_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"],
    capture_message_content=os.environ["CONTENT"] == "on",
    disable_metrics=True,
)
call_openai()
call_anthropic()
from opentelemetry import trace  # noqa: E402

trace.get_tracer_provider().force_flush()
