"""Reads a request with its response, as the APIs of OpenAI and Anthropic have them.

One struct describes an object at any level, because logs nest providers' objects in many ways. The
decoder skips other members without decoding them, which makes these logs the fastest to read.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from detectors.formats.adapters.calls import MESSAGE, NO_USAGE, Sighting
from detectors.formats.adapters.labels import find_model, find_provider
from detectors.formats.adapters.rows import UNREADABLE, Row, read_usages

# The members of a request with its prompt, in the order in which they are hashed.
PROMPTS: Final = ("system", "instructions", "messages", "input", "prompt")
Inner: TypeAlias = "Exchange | str | int | float | bool | list[Any] | None"


_PARTS: Final = ("chat.completion.chunk", "text_completion.chunk")
_NO_ITEMS: Final = msgspec.Raw(b"null")


class Exchange(Struct, gc=False):
    request: Inner = None
    response: Inner = None
    body: Inner = None
    usage: Any = None
    usage_info: Any = None  # Mistral's name of the pages of a document
    meta: Any = None  # Cohere's earlier name
    tool_usage: Any = None
    svg_usage: Any = None
    choices: msgspec.Raw = _NO_ITEMS  # of which Moonshot's last chunk has the usage
    output: msgspec.Raw = _NO_ITEMS
    tools: msgspec.Raw = _NO_ITEMS
    ts: Any = None
    created: Any = None
    created_at: Any = None
    timestamp: Any = None
    latency_ms: Any = None
    declared_max_tokens: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    model: Any = None
    provider: Any = None
    id: Any = None
    request_id: Any = None
    object: Any = None
    type: Any = None
    service_tier: Any = None
    serviceTier: Any = None  # Bedrock's
    endpoint: Any = None
    tag: Any = None
    environment: Any = None
    prefix_hash: Any = None
    system: Any = None
    instructions: Any = None
    messages: Any = None
    input: Any = None
    prompt: Any = None

    def prompts(self) -> tuple[Any, ...]:
        return self.system, self.instructions, self.messages, self.input, self.prompt


_DECODER: Final = msgspec.json.Decoder(Exchange)
_NOTHING: Final = Exchange()


def read_exchange(text: bytes) -> Sighting:
    """Read an object with a request and its response, or with the members of both."""
    outer = _DECODER.decode(text)
    answered = outer.response
    response = answered if isinstance(answered, Exchange | str) else None
    if isinstance(answered, list):
        # The events of a stream: what later ones say of the answer counts.
        found: dict[str, Any] = {}
        usage: dict[str, Any] = {}
        for event in filter(lambda each: isinstance(each, dict), answered):
            for holder in (event, event.get("message"), event.get("response")):
                if not isinstance(holder, dict) or not isinstance(holder.get("usage") or {}, dict):
                    continue
                found |= {
                    name: holder[name] for name in _OF_STREAMS if holder.get(name) is not None
                }
                usage |= {name: n for name, n in found.pop("usage", {}).items() if n is not None}
        response = msgspec.convert({**found, "usage": usage}, Exchange) if usage else None
    if response is not None or outer.request is not None:
        return exchange(outer, _exchange_of(outer.request), _exchange_of(response))
    return exchange(outer, outer, outer)


def _exchange_of(value: Any) -> Exchange:
    """Return the object, decoding it if a log has it as JSON text."""
    if isinstance(value, Exchange):
        return value
    if isinstance(value, str) and value.startswith("{"):
        try:
            return _DECODER.decode(value)
        except UNREADABLE:
            pass
    return _NOTHING


_OF_STREAMS: Final = ("id", "model", "type", "object", "service_tier", "tool_usage", "usage")


def exchange(outer: Exchange, request: Exchange, response: Exchange) -> Sighting:
    """Read a request and its response, as two objects or as one with the members of both."""
    is_flat, tier = request is response, response.serviceTier
    asked = request if request.body is None else _exchange_of(request.body)
    prompts = asked.prompts()
    if is_flat and not any((asked.messages, asked.input, asked.prompt)):
        prompts = ()  # a response repeats its instructions, which are not the whole prompt
    # What stands beside a usage and may cost something of its own: most often nothing.
    found: dict[str, Any] = {}
    if response.tool_usage is not None:
        found["tool_usage"] = response.tool_usage
    if response.svg_usage is not None:
        found["svg_usage"] = response.svg_usage
    for name in ("output", "tools"):
        text = getattr(response, name)
        if text is not _NO_ITEMS:
            try:
                found[name] = msgspec.to_builtins(_ITEMS.decode(text))
            except UNREADABLE:  # an answer's text, in other APIs
                continue
    of_choices = []
    if response.usage is None and b'"usage"' in bytes(response.choices):
        with suppress(*UNREADABLE):
            of_choices = [choice.usage for choice in _CHOICES.decode(response.choices)]
    readings = read_usages(
        *(response.usage, response.usage_info, response.meta, *of_choices),
        provider=find_provider(outer.provider) or "",
        model=response.model or asked.model or outer.model,
        beside=found or None,
        may_lack_output=response.object == "list",
    )
    # The counts are the best sign of the provider.
    usage = response.usage if isinstance(response.usage, dict) else {}
    is_openai = "prompt_tokens" in usage or "input_tokens_details" in usage
    model = find_model(response.model) or ""
    is_anthropic = not is_openai and (
        response.type == "message"
        or "cache_read_input_tokens" in usage
        or (response.object is None and model.startswith("claude"))
    )
    return Sighting(
        readings=readings,
        moments=(outer.ts, outer.created, response.created, response.created_at, outer.timestamp,
                 outer.created_at),
        models=(response.model, asked.model, outer.model),
        providers=(outer.provider, "anthropic" if is_anthropic else "openai"),
        ids=(outer.request_id, response.id),
        tags=(outer.tag,),
        environment=outer.environment,
        endpoint=outer.endpoint,
        latency_ms=outer.latency_ms,
        caps=(outer.declared_max_tokens, asked.max_tokens, asked.max_completion_tokens,
              asked.max_output_tokens, response.max_output_tokens),
        prompts=prompts,
        prefix_hash=outer.prefix_hash,
        service_tier=response.service_tier or (isinstance(tier, dict) and tier.get("type")) or None,
        created=response.created_at if response.object == "response" else None,
        # Some servers send the usage so far with each part of an answer.
        origin=MESSAGE if response.object in _PARTS else None,
    )  # fmt: skip


class _Choice(Struct, gc=False):
    usage: Any = None


_CHOICES: Final = msgspec.json.Decoder(list[_Choice])


class _Action(Struct, gc=False):
    type: Any = None


class _Item(Struct, gc=False):
    """Part of an answer, or a tool of a request, of which only the kind is read."""

    type: Any = None
    status: Any = None
    model: Any = None
    action: _Action | None = None
    svg_usage: Any = None


_ITEMS: Final = msgspec.json.Decoder(list[_Item])


def caps_of(options: Row) -> tuple[Any, ...]:
    """Return the limit on the answer under each of its names."""
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxTokens")
    return tuple(map(options.get, names))


def read_batch(row: Row, response: Row) -> Iterator[Sighting | str]:
    """Read a line of a batch output; such calls cost half."""
    if not response.has("usage"):
        yield NO_USAGE
        return
    outer, answered = (msgspec.convert(each.plain(_READ), Exchange) for each in (row, response))
    seen = exchange(outer, _NOTHING, answered)
    seen.service_tier = "batch"
    seen.ids = (answered.id,)
    yield seen


_READ: Final = frozenset(Exchange.__struct_fields__) - {
    *("request", "response", "body", "output", "tools", "choices"),
    *PROMPTS,
}
