"""A call of someone else's log, the same shape for every source.

Written, it is an OpenAI-style flat line with the record's own labels, which every other part of the
project reads. It contains only checked values: counts, a time, and names that `labels` accepts.
"""

from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from detectors.contract import (
    LEVEL_DIGITS,
    LEVELS,
    MAX_LATENCY_MS,
    MAX_REPORTED_USD,
    STATUSES,
    StoredRecord,
)
from detectors.formats.adapters.labels import (
    find_hash,
    find_levels,
    find_model,
    find_provider,
    find_tag,
    id_of,
    provider_of,
)
from detectors.formats.json_logs.usage.reader import (
    Reading,
    count_of,
    largest_of,
    names_of,
    tier_of,
    unknown_tier,
)
from detectors.formats.moments import read_moment

# A shorter prompt could be found from its hash by trying texts.
SHORTEST_HASHED: Final = 1_024
_LONGEST: Final = LEVELS[-1]
_DEEPEST: Final = 8
# Gateways write these words where they removed text, so equal texts don't mean equal prompts.
_REMOVED: Final = ("redacted-by-litellm", "litellm_truncated")


def hash_texts(*prompts: Any, least: int = 0) -> list[str]:
    """Hash the members of a request that contain its prompt, in the canonical order, by level.

    There is none if they contain no text or fewer characters than `least`, and none of a level in
    which a gateway removed some.
    """
    texts, missing = list[str](), _LONGEST
    for text in _texts(prompts):
        texts.append(text[:_LONGEST])
        missing -= len(text) + 1
        if missing < 0:
            break
    beginning = "\n".join(texts)[:_LONGEST]
    if not texts or len(beginning) < least:
        return []
    found = [at for at in map(beginning.find, _REMOVED) if at >= 0]
    known = min(found, default=_LONGEST)
    digest, hashes, hashed = sha256(), list[str](), 0
    for size in LEVELS:
        if known < min(size, len(beginning)) or (hashed and len(beginning) < size):
            break
        digest.update(beginning[hashed:size].encode("utf-8", "surrogatepass"))
        hashes.append(digest.hexdigest())
        hashed = size
    return hashes


def _texts(value: Any, deepest: int = _DEEPEST + 1) -> Iterator[str]:
    """Yield the texts of a JSON value: strings, and the `text` or `content` of objects."""
    if isinstance(value, str):
        yield value
    elif not deepest:
        return
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, deepest - 1)
    elif isinstance(value, dict):
        text = value.get("text")
        inner = text if isinstance(text, str) else value.get("content")
        yield from _texts(inner, deepest - 1)


class PromptDetails(Struct, omit_defaults=True, gc=False):
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0


class AnswerDetails(Struct, omit_defaults=True, gc=False):
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0


class Usage(Struct, omit_defaults=True, gc=False):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: AnswerDetails | None = None


class Call(Struct, omit_defaults=True, gc=False):
    ts: datetime
    provider: str
    model: str
    usage: Usage
    endpoint: str | None = None
    request_id: str | None = None
    tag: str | None = None
    latency_ms: float | None = None
    declared_max_tokens: int | None = None
    prefix_hash: str | None = None
    prefix_hashes: list[str] | None = None
    service_tier: str | None = None
    cache_write_1h_tokens: int = 0
    web_searches: int = 0
    environment: str | None = None
    session_id: str | None = None
    region: str | None = None
    status: str | None = None
    units: dict[str, int | float] | None = None
    reported_usd: float | None = None
    billing: str | None = None
    input_assumed: Literal[1] | None = None
    unknown_fields: str | None = None
    unknown_largest: int | None = None


class Sighting(Struct, kw_only=True, gc=False):
    """Unchecked values of a call from a raw log; texts are only hashed.

    `readings` are the calls of its usage; the first is the answer's own.
    """

    readings: list[Reading]
    moments: tuple[Any, ...]
    models: tuple[Any, ...]
    providers: tuple[Any, ...]
    ids: tuple[Any, ...]
    tags: tuple[Any, ...] = ()
    endpoint: Any = None
    latency_ms: Any = None
    caps: tuple[Any, ...] = ()
    prompts: tuple[Any, ...] = ()
    prefix_hash: Any = None
    prefix_hashes: Any = None
    service_tier: Any = None
    environment: Any = None
    session: Any = None
    region: Any = None
    status: Any = None
    reported_usd: Any = None  # as the source says it beside the usage
    billing: str | None = None
    origin: "Origin | None" = None  # None if only equal rows are one call
    way: str = ""  # the source, if it has an adapter
    created: Any = None  # as a response says that can be read again
    span: "TraceSpan | None" = None


class Origin(Struct, frozen=True, kw_only=True, gc=False):
    """How copies of a call differ from other calls, beside its ID, or the `name` that they share.

    `asked` is the request's own ID. A row that is not written again while it grows has none: with
    `is_row`, equal IDs at one time are one call. `place` is how far an agent's session was; a
    session that was forked began as a copy of its `parents`, the nearest first.
    """

    name: str | None = None
    asked: str = ""
    is_row: bool = False
    place: str | None = None
    session: str | None = None
    parents: tuple[str, ...] = ()
    begun: datetime | None = None


class TraceSpan(NamedTuple):
    """A span of a trace, and the one that it is in; `is_call` if it says that it is one call."""

    name: str
    parent: str
    is_call: bool


MESSAGE: Final = Origin()
ROW: Final = Origin(is_row=True)
NO_USAGE: Final = "without token counts: questions, errors, notes"
REPEATED: Final = "parts of what other rows count"
NO_TIME: Final = "without a time from 2000 to 2100"
NO_MODEL: Final = "without a model name"
CACHE_HIT: Final = "answered from a gateway's cache, so not billed"
FAILED: Final = "failed, so not billed"
TOTALS: Final = "totals instead of calls"


def calls_of(seen: Sighting, least: int = SHORTEST_HASHED) -> list[Call] | str:
    """Return the calls, or the reason why there are none.

    Prompts of fewer characters than `least` have no hash, unless the log has one.
    """
    if not seen.readings:
        return NO_USAGE
    model = _first(find_model, seen.models)
    if model is None:
        return NO_MODEL
    moment = _first(find_moment, seen.moments)
    if moment is None:
        return NO_TIME
    provider = _first(find_provider, seen.providers) or provider_of(model)
    prefix_hash = find_hash(seen.prefix_hash)
    levels = find_levels(seen.prefix_hashes, prefix_hash)
    is_hashed = bool(prefix_hash or levels or not seen.prompts)
    if not is_hashed and (hashes := hash_texts(*seen.prompts, least=least)):
        prefix_hash, levels = hashes[0], [each[:LEVEL_DIGITS] for each in hashes]
    reading, tier = seen.readings[0], seen.service_tier
    own = None
    if tier is not None:
        own = None if reading.service_tier == "fast" else tier_of(tier)
        if odd := unknown_tier(tier):
            reading.unknown[odd] = 0
    said = _number_to(MAX_REPORTED_USD, seen.reported_usd)
    call = Call(
        ts=moment,
        provider=provider,
        model=model,
        usage=_usage_of(reading),
        endpoint=find_tag(seen.endpoint),
        request_id=_first(id_of, seen.ids),
        tag=_first(find_tag, seen.tags),
        latency_ms=_number_to(MAX_LATENCY_MS, seen.latency_ms),
        declared_max_tokens=next(filter(None, map(count_of, seen.caps)), None),
        prefix_hash=prefix_hash,
        prefix_hashes=levels,
        service_tier=own or reading.service_tier,
        cache_write_1h_tokens=reading.parts.get("cache_write_1h_tokens", 0),
        web_searches=reading.parts.get("web_searches", 0),
        environment=find_tag(seen.environment),
        session_id=id_of(seen.session),
        region=find_provider(seen.region) or find_provider(reading.region),
        status=seen.status if seen.status in STATUSES else None,
        units=reading.units or None,
        reported_usd=reading.reported_usd if said is None else said,
        billing=seen.billing,
        input_assumed=1 if reading.is_assumed else None,
        unknown_fields=names_of(reading.unknown),
        unknown_largest=largest_of(reading.unknown),
    )
    others = enumerate(seen.readings[1:], 2)
    return [call, *(_other_call(call, other, number) for number, other in others)]


def _number_to(most: float, value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value <= most else None


def _other_call(call: Call, reading: Reading, number: int) -> Call:
    """Return a call that another model has answered within the first, such as an advisor's."""
    return msgspec.structs.replace(
        call,
        model=find_model(reading.model) or call.model,
        usage=_usage_of(reading),
        request_id=call.request_id and f"{call.request_id}.{number}",
        latency_ms=None,
        declared_max_tokens=None,
        prefix_hash=None,
        prefix_hashes=None,
        cache_write_1h_tokens=reading.parts.get("cache_write_1h_tokens", 0),
        web_searches=reading.parts.get("web_searches", 0),
        units=reading.units or None,
        reported_usd=None,
        input_assumed=None,
        unknown_fields=None,
        unknown_largest=None,
    )


def record_of(call: Call) -> StoredRecord:
    """Return the call as a record."""
    asked = call.usage.prompt_tokens_details or PromptDetails()
    answered = call.usage.completion_tokens_details or AnswerDetails()
    labels = {name: getattr(call, name) for name in _LABELS}
    return StoredRecord(
        prompt_tokens=call.usage.prompt_tokens,
        completion_tokens=call.usage.completion_tokens,
        cached_tokens=asked.cached_tokens,
        cache_write_tokens=asked.cache_write_tokens,
        audio_prompt_tokens=asked.audio_tokens,
        image_prompt_tokens=asked.image_tokens,
        reasoning_tokens=answered.reasoning_tokens,
        audio_completion_tokens=answered.audio_tokens,
        image_completion_tokens=answered.image_tokens,
        **labels,
    )


_LABELS: Final = tuple(name for name in Call.__struct_fields__ if name != "usage")


def _usage_of(reading: Reading) -> Usage:
    part = reading.parts.get
    asked = PromptDetails(
        reading.cached or 0,
        reading.written or 0,
        part("audio_prompt_tokens", 0),
        part("image_prompt_tokens", 0),
    )
    answered = AnswerDetails(
        part("reasoning_tokens", 0),
        part("audio_completion_tokens", 0),
        part("image_completion_tokens", 0),
    )
    return Usage(
        reading.prompt,
        reading.completion,
        asked if asked != PromptDetails() else None,
        answered if answered != AnswerDetails() else None,
    )


def find_moment(value: Any) -> datetime | None:
    """Parse a time as logs write it; None for anything else."""
    try:
        return read_moment(value)
    except (ValueError, OverflowError):
        return None


def milliseconds_between(start: Any, end: Any) -> float | None:
    """Return the time between start and end; None if either is missing or out of order."""
    begun, ended = find_moment(start), find_moment(end)
    if begun is None or ended is None or ended < begun:
        return None
    return round((ended - begun).total_seconds() * 1_000, 3)


def _first(find: Any, values: tuple[Any, ...]) -> Any:
    for value in values:
        if value is not None and (found := find(value)) is not None:
            return found
    return None


encode_call: Final = msgspec.json.Encoder().encode
