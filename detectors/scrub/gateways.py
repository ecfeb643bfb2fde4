"""Reads calls from the logs of gateways: LiteLLM and Langfuse."""

from typing import Any, Final

import msgspec

from detectors.scrub.calls import Sighting, milliseconds_between
from detectors.scrub.nodes import Metadata, Node
from detectors.scrub.providers import node_of, tier_of
from detectors.scrub.usage import checked, find_counts, sum_counts

CACHE_HIT: Final = "answered from a gateway's cache, so not billed"
FAILED: Final = "failed, so not billed"


def litellm(node: Node) -> Sighting | str:
    """Read LiteLLM's standard payload, or a row of its spend logs."""
    if node.cache_hit is True or node.cache_hit == "True":
        return CACHE_HIT
    if node.status == "failure":
        return FAILED
    response, request = node_of(node.response), node_of(node.proxy_server_request)
    notes = _metadata_of(node.metadata)
    plain = checked(node.prompt_tokens, node.completion_tokens)
    counts = find_counts(notes.usage_object) or find_counts(response.usage) or plain
    options = node.model_parameters if isinstance(node.model_parameters, dict) else {}
    provider = node.custom_llm_provider
    model = node.model
    if isinstance(model, str) and isinstance(provider, str):
        model = model.removeprefix(f"{provider}/")
    messages = node.messages or node.input or request.messages or request.input
    return Sighting(
        counts=counts,
        usage=notes.usage_object if find_counts(notes.usage_object) else response.usage,
        moments=(node.startTime, node.start_time),
        models=(model, response.model),
        providers=(provider,),
        ids=(node.id, node.request_id, response.id),
        tags=(*_list_of(node.request_tags),),
        endpoint=node.call_type,
        latency_ms=_given(
            milliseconds_between(node.startTime, node.endTime), node.request_duration_ms
        ),
        caps=(options.get("max_tokens"), options.get("max_completion_tokens"),
              options.get("max_output_tokens")),
        prompts=(request.system, request.instructions, messages),
        service_tier=tier_of(response) or options.get("service_tier"),
    )  # fmt: skip


def _metadata_of(value: Any) -> Metadata:
    if isinstance(value, Metadata):
        return value
    if isinstance(value, str) and value.startswith("{"):
        try:
            return msgspec.json.decode(value, type=Metadata)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
    return Metadata()


def _list_of(value: Any) -> list[Any]:
    if isinstance(value, str) and value.startswith("["):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return []
    return value if isinstance(value, list) else []


def langfuse(node: Node) -> Sighting:
    """Read an observation of Langfuse, from an export or its API."""
    options = node.modelParameters if isinstance(node.modelParameters, dict) else {}
    plain = checked(node.promptTokens, node.completionTokens or 0)
    begun, ended = node.startTime or node.start_time, node.endTime or node.end_time
    return Sighting(
        counts=sum_counts(node.usageDetails or node.usage_details or node.usage) or plain,
        moments=(begun,),
        models=(node.model,),
        providers=(node.provider,),
        ids=(node.id,),
        tags=(node.tag, node.name),
        environment=node.environment,
        session=node.sessionId,
        latency_ms=milliseconds_between(begun, ended),
        caps=(options.get("max_tokens"), options.get("max_completion_tokens"),
              options.get("maxTokens"), options.get("max_output_tokens")),
        prompts=_prompts_of(node.input),
        service_tier=options.get("service_tier"),
    )  # fmt: skip


def _prompts_of(value: Any) -> tuple[Any, ...]:
    """Return the prompts of Langfuse's `input`: messages, an object with them, or JSON text."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return (value,)
    if isinstance(value, dict) and not isinstance(value.get("content"), str | list):
        return tuple(
            value.get(name) for name in ("system", "instructions", "messages", "input", "prompt")
        )
    return (value,)


def _given(first: Any, second: Any) -> Any:
    return second if first is None else first
