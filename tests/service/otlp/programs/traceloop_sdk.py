"""traceloop-sdk, with a workflow around the calls."""

import os

from exporting import call_anthropic, call_openai
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import workflow

os.environ["TRACELOOP_BASE_URL"] = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
Traceloop.init(
    app_name="checkout",
    api_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"],
    headers={"Authorization": "Bearer stub"},
    disable_batch=False,
    telemetry_enabled=False,
)


@workflow(name="answer")
def answer() -> None:
    call_openai()
    call_anthropic()


answer()
from opentelemetry import trace  # noqa: E402

trace.get_tracer_provider().force_flush()
