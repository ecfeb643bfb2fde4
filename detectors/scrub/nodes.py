"""The members of a raw log that are read; all others are skipped.

One struct describes an object at any level, because gateways nest providers' objects in many ways.
The decoder skips other members without decoding them, so answers and tool calls are never in memory
as text. The members with prompts are, until they are hashed.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

Inner: TypeAlias = "Node | str | int | float | bool | list[Any] | None"


class Metadata(Struct, gc=False):
    """LiteLLM's metadata of a call."""

    usage_object: Any = None


class Node(Struct, gc=False):
    """An object of a raw log."""

    # Objects within it.
    request: Inner = None
    response: Inner = None
    body: Inner = None
    message: Inner = None
    result: Inner = None
    proxy_server_request: Inner = None
    metadata: Metadata | str | int | float | bool | list[Any] | None = None
    data: msgspec.Raw = msgspec.Raw()  # a page of an API response

    # What is counted, and when.
    usage: Any = None
    usageDetails: Any = None
    usage_details: Any = None
    prompt_tokens: Any = None
    completion_tokens: Any = None
    promptTokens: Any = None
    completionTokens: Any = None
    ts: Any = None
    created: Any = None
    created_at: Any = None
    timestamp: Any = None
    startTime: Any = None
    endTime: Any = None
    start_time: Any = None
    end_time: Any = None
    latency_ms: Any = None
    request_duration_ms: Any = None
    declared_max_tokens: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    model_parameters: Any = None
    modelParameters: Any = None

    # What it is called.
    model: Any = None
    provider: Any = None
    custom_llm_provider: Any = None
    id: Any = None
    request_id: Any = None
    requestId: Any = None
    sessionId: Any = None
    custom_id: Any = None
    object: Any = None
    type: Any = None
    call_type: Any = None
    status: Any = None
    cache_hit: Any = None
    service_tier: Any = None
    endpoint: Any = None
    tag: Any = None
    environment: Any = None
    name: Any = None
    traceName: Any = None
    request_tags: Any = None
    prefix_hash: Any = None

    # Prompts, in the order in which they are hashed.
    system: Any = None
    instructions: Any = None
    messages: Any = None
    input: Any = None
    prompt: Any = None

    def prompts(self) -> tuple[Any, ...]:
        return self.system, self.instructions, self.messages, self.input, self.prompt
