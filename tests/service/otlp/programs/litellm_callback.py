"""LiteLLM's callback "otel", over two providers."""

import os
import time

import litellm
from exporting import MESSAGES, STUB

litellm.turn_off_message_logging = os.environ["CONTENT"] != "on"
litellm.callbacks = ["otel"]
litellm.completion("gpt-4o", MESSAGES, api_key="sk-stub", api_base=f"{STUB}/v1", max_tokens=64)
litellm.completion(
    "anthropic/claude-sonnet-4-6", MESSAGES, api_key="sk-stub", api_base=STUB, max_tokens=64
)
time.sleep(2)
from opentelemetry import trace  # noqa: E402

trace.get_tracer_provider().force_flush()
time.sleep(6)
