"""Each shape of raw log, told by its members alone, object by object: one log may mix them."""

import re
from typing import Any, Final

import msgspec

from detectors.scrub.calls import Sighting, milliseconds_between
from detectors.scrub.labels import find_model
from detectors.scrub.nodes import Metadata, Node
from detectors.scrub.usage import checked, find_counts, sum_counts

_DECODER: Final = msgspec.json.Decoder(Node)
_NOTHING: Final = Node()
# How a session of Claude Code is named; other names of one could be anything.
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SUBSCRIPTION: Final = "claude-code"
CACHE_HIT: Final = "answered by a gateway's own cache, so not billed"
FAILED: Final = "failed, so not billed"


def sight(node: Node) -> Sighting | str:
    """What the object says of a call, or why it is none that was billed."""
    if isinstance(node.message, Node) and node.message.usage is not None:
        return _claude_code(node, node.message)
    if isinstance(node.usageDetails or node.usage_details, dict) or node.promptTokens is not None:
        return _langfuse(node)
    if node.call_type is not None:
        return _litellm(node)
    answer = node.response if isinstance(node.response, Node | str) else None
    response = _node_of(answer)
    if isinstance(response.body, Node):
        return _batch(node, response.body)
    if isinstance(node.result, Node):
        return _batch(node, _node_of(node.result.message))
    if answer is not None or node.request is not None:
        return _exchange(node, _node_of(node.request), response)
    return _exchange(node, node, node)


def _node_of(value: Any) -> Node:
    """The object, also where a log holds it as a text of JSON."""
    if isinstance(value, Node):
        return value
    if isinstance(value, str) and value.startswith("{"):
        try:
            return _DECODER.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
    return _NOTHING


def _exchange(node: Node, request: Node, response: Node) -> Sighting:
    """A request and its response, as two objects or as one that has the members of both."""
    is_flat = request is response
    asked = request if request.body is None else _node_of(request.body)
    prompts = asked.prompts()
    if is_flat and not any((asked.messages, asked.input, asked.prompt)):
        prompts = ()  # a response repeats its instructions, which are not the whole prompt
    usage = response.usage
    return Sighting(
        counts=find_counts(usage),
        moments=(node.ts, node.created, response.created, response.created_at, node.timestamp,
                 node.created_at),
        models=(response.model, asked.model, node.model),
        providers=(node.provider, _vendor_of(response)),
        ids=(node.request_id, response.id),
        tags=(node.tag, node.environment),
        endpoint=node.endpoint,
        latency_ms=node.latency_ms,
        caps=(node.declared_max_tokens, asked.max_tokens, asked.max_completion_tokens,
              asked.max_output_tokens, response.max_output_tokens),
        prompts=prompts,
        prefix_hash=node.prefix_hash,
        service_tier=_tier_of(response),
    )  # fmt: skip


def _vendor_of(response: Node) -> str:
    """Whose interface the response is of; its counts tell best, as in logs without text."""
    usage = response.usage if isinstance(response.usage, dict) else {}
    is_openai = "prompt_tokens" in usage or "input_tokens_details" in usage
    if not is_openai and (response.type == "message" or "cache_read_input_tokens" in usage):
        return "anthropic"
    model = find_model(response.model) or ""
    is_claude = not is_openai and response.object is None and model.startswith("claude")
    return "anthropic" if is_claude else "openai"


def _tier_of(response: Node) -> Any:
    usage = response.usage if isinstance(response.usage, dict) else {}
    if usage.get("speed") == "fast":
        return "fast"
    return response.service_tier or usage.get("service_tier")


def _batch(node: Node, response: Node) -> Sighting:
    """A line of a batch's output, OpenAI's or Anthropic's: its calls cost half."""
    seen = _exchange(node, _NOTHING, response)
    seen.service_tier = "batch"
    seen.ids = (response.id,)
    return seen


def _claude_code(node: Node, message: Node) -> Sighting:
    """A line of a session's transcript, of which each is a snapshot of one message."""
    session = node.sessionId
    is_named = isinstance(session, str) and _UUID.fullmatch(session)
    return Sighting(
        counts=find_counts(message.usage),
        moments=(node.timestamp, node.ts),
        models=(message.model,),
        providers=(_SUBSCRIPTION if node.sessionId is not None else "anthropic",),
        ids=(message.id, node.requestId),
        tags=(node.tag, session if is_named else None),
        service_tier=_tier_of(message),
        is_snapshot=isinstance(message.id, str) and message.id != "",
    )


def _litellm(node: Node) -> Sighting | str:
    """LiteLLM's standard payload, or a row of its spend logs."""
    if node.cache_hit is True or node.cache_hit == "True":
        return CACHE_HIT
    if node.status == "failure":
        return FAILED
    response, request = _node_of(node.response), _node_of(node.proxy_server_request)
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
        service_tier=_tier_of(response) or options.get("service_tier"),
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


def _langfuse(node: Node) -> Sighting:
    """An observation of Langfuse, as its exports and its interface give it."""
    options = node.modelParameters if isinstance(node.modelParameters, dict) else {}
    plain = checked(node.promptTokens, node.completionTokens or 0)
    begun, ended = node.startTime or node.start_time, node.endTime or node.end_time
    return Sighting(
        counts=sum_counts(node.usageDetails or node.usage_details or node.usage) or plain,
        moments=(begun,),
        models=(node.model,),
        providers=(node.provider,),
        ids=(node.id,),
        tags=(node.tag, node.name, node.environment),
        latency_ms=milliseconds_between(begun, ended),
        caps=(options.get("max_tokens"), options.get("max_completion_tokens"),
              options.get("maxTokens"), options.get("max_output_tokens")),
        prompts=_prompts_of(node.input),
        service_tier=options.get("service_tier"),
    )  # fmt: skip


def _prompts_of(value: Any) -> tuple[Any, ...]:
    """The prompts of Langfuse's `input`: messages, an object that has them, or a text of either."""
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
