"""Reads calls from model providers' logs: exchanges, batches, Claude Code sessions."""

import re
from typing import Any, Final

import msgspec

from detectors.scrub.calls import Sighting
from detectors.scrub.labels import find_model
from detectors.scrub.nodes import Node
from detectors.scrub.usage import find_counts

_DECODER: Final = msgspec.json.Decoder(Node)
_NOTHING: Final = Node()
# The name of a Claude Code session; any other name could be text.
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SUBSCRIPTION: Final = "claude-code"


def node_of(value: Any) -> Node:
    """Return the object, decoding it if a log has it as JSON text."""
    if isinstance(value, Node):
        return value
    if isinstance(value, str) and value.startswith("{"):
        try:
            return _DECODER.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
    return _NOTHING


def exchange(node: Node, request: Node, response: Node) -> Sighting:
    """Read a request and its response, as two objects or as one with the members of both."""
    is_flat = request is response
    asked = request if request.body is None else node_of(request.body)
    prompts = asked.prompts()
    if is_flat and not any((asked.messages, asked.input, asked.prompt)):
        prompts = ()  # a response repeats its instructions, which are not the whole prompt
    usage = response.usage
    return Sighting(
        counts=find_counts(usage),
        moments=(node.ts, node.created, response.created, response.created_at, node.timestamp,
                 node.created_at),
        models=(response.model, asked.model, node.model),
        providers=(node.provider, _provider_of(response)),
        ids=(node.request_id, response.id),
        tags=(node.tag,),
        environment=node.environment,
        usage=usage,
        endpoint=node.endpoint,
        latency_ms=node.latency_ms,
        caps=(node.declared_max_tokens, asked.max_tokens, asked.max_completion_tokens,
              asked.max_output_tokens, response.max_output_tokens),
        prompts=prompts,
        prefix_hash=node.prefix_hash,
        service_tier=tier_of(response),
    )  # fmt: skip


def _provider_of(response: Node) -> str:
    """Return the provider of a response; its counts are the best sign."""
    usage = response.usage if isinstance(response.usage, dict) else {}
    is_openai = "prompt_tokens" in usage or "input_tokens_details" in usage
    if not is_openai and (response.type == "message" or "cache_read_input_tokens" in usage):
        return "anthropic"
    model = find_model(response.model) or ""
    is_claude = not is_openai and response.object is None and model.startswith("claude")
    return "anthropic" if is_claude else "openai"


def tier_of(response: Node) -> Any:
    usage = response.usage if isinstance(response.usage, dict) else {}
    if usage.get("speed") == "fast":
        return "fast"
    return response.service_tier or usage.get("service_tier")


def batch(node: Node, response: Node) -> Sighting:
    """Read a line of a batch output; such calls cost half."""
    seen = exchange(node, _NOTHING, response)
    seen.service_tier = "batch"
    seen.ids = (response.id,)
    return seen


def claude_code(node: Node, message: Node) -> Sighting:
    """Read a line of a Claude Code transcript, which is a snapshot of one message."""
    session = node.sessionId
    is_named = isinstance(session, str) and _UUID.fullmatch(session)
    return Sighting(
        counts=find_counts(message.usage),
        moments=(node.timestamp, node.ts),
        models=(message.model,),
        providers=(_SUBSCRIPTION if node.sessionId is not None else "anthropic",),
        ids=(message.id, node.requestId),
        tags=(node.tag, session if is_named else None),
        session=session,
        usage=message.usage,
        service_tier=tier_of(message),
        is_snapshot=isinstance(message.id, str) and message.id != "",
    )
