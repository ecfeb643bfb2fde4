"""The same calls written as log files of every format that the library reads."""

import csv
import json
from collections.abc import Callable, Iterable
from datetime import UTC
from io import StringIO
from typing import Any

import msgspec
from msgspec.structs import replace

from detectors.contract import RECORD_V2_FIELDS, UsageRecord
from tests.detectors.reference.calls import optional
from tests.detectors.reference.tiers import tier_of

Line = dict[str, Any]
Writer = Callable[[Iterable[UsageRecord]], bytes]


def as_csv(records: Iterable[UsageRecord]) -> bytes:
    """Columns in reverse order and upper case, times with their own offsets."""
    names = [name for name in reversed(RECORD_V2_FIELDS) if name not in _WITH_PARTS]
    file = StringIO()
    writer = csv.writer(file)
    writer.writerow([name.upper() for name in names])
    for record in records:
        fields = msgspec.structs.asdict(record) | {"ts": record.ts.isoformat()}
        writer.writerow([fields[name] for name in names])
    return file.getvalue().encode()


def as_chat_completions(records: Iterable[UsageRecord]) -> bytes:
    return _lines(_chat_completion(record) for record in records)


def as_wrapped_chat_completions(records: Iterable[UsageRecord]) -> bytes:
    return _lines(_wrapped(_chat_completion(record), "max_completion_tokens") for record in records)


def as_responses(records: Iterable[UsageRecord]) -> bytes:
    return _lines(_response(record) for record in records)


def as_wrapped_responses(records: Iterable[UsageRecord]) -> bytes:
    return _lines(_wrapped(_response(record), "max_output_tokens") for record in records)


def as_messages(records: Iterable[UsageRecord]) -> bytes:
    return _lines(_message(record) for record in records)


def as_wrapped_messages(records: Iterable[UsageRecord]) -> bytes:
    return _lines(_wrapped(_message(record), "max_tokens") for record in records)


OPENAI_FORMATS = (
    as_chat_completions,
    as_wrapped_chat_completions,
    as_responses,
    as_wrapped_responses,
)
ANTHROPIC_FORMATS = (as_messages, as_wrapped_messages)
FORMATS: tuple[Writer, ...] = (as_csv, *OPENAI_FORMATS, *ANTHROPIC_FORMATS)


# Of several numbers or texts; the drawn logs have none.
_WITH_PARTS = ("units", "prefix_hashes")
_NOT_OF_OPENAI = ("cache_write_1h_tokens",)
_NOT_OF_ANTHROPIC = ("reasoning_tokens",)
_OF_CSV_ALONE = (
    "audio_prompt_tokens",
    "audio_completion_tokens",
    "image_prompt_tokens",
    "image_completion_tokens",
    "web_searches",
)


def writable(records: Iterable[UsageRecord], write: Writer) -> list[UsageRecord]:
    """Return the records that a format can hold, without the fields that it cannot."""
    if write is as_csv:
        return list(records)
    is_anthropic = write in ANTHROPIC_FORMATS
    less = _OF_CSV_ALONE + (_NOT_OF_ANTHROPIC if is_anthropic else _NOT_OF_OPENAI)
    plain = [replace(record, **dict.fromkeys(less)) for record in records]
    return [record for record in plain if _has_room_for_cache(record)]


def _has_room_for_cache(record: UsageRecord) -> bool:
    """Check that the prompt includes the cached part; readers add the two where it can't."""
    return record.prompt_tokens >= (record.cached_tokens or 0) + (record.cache_write_tokens or 0)


def _lines(documents: Iterable[Line]) -> bytes:
    return "".join(json.dumps(document) + "\n" for document in documents).encode()


def _labels(record: UsageRecord, vendor: str) -> Line:
    """The record's own fields; what the provider's shape implies is omitted."""
    labels: Line = {
        "provider": record.provider if record.provider != vendor else None,
        "tag": record.tag,
        "endpoint": record.endpoint,
        "latency_ms": record.latency_ms,
        "declared_max_tokens": record.declared_max_tokens,
        "prefix_hash": record.prefix_hash,
        "prefix_hash_16k": optional(record, "prefix_hash_16k"),
        "prefix_hash_64k": optional(record, "prefix_hash_64k"),
        "session_id": optional(record, "session_id"),
    }
    if record.ts.microsecond:
        labels |= {"ts": record.ts.isoformat(), "created": 1_500_000_000}
    else:
        labels |= {"created": int(record.ts.astimezone(UTC).timestamp())}
    return {name: value for name, value in labels.items() if value is not None}


def _chat_completion(record: UsageRecord) -> Line:
    prompt, completion = record.prompt_tokens, record.completion_tokens
    return {
        **_labels(record, "openai"),
        "id": record.request_id,
        "object": "chat.completion",
        "model": record.model,
        "service_tier": tier_of(record) or "default",
        "system_fingerprint": None,
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": _input_details(record),
            "completion_tokens_details": {
                "reasoning_tokens": optional(record, "reasoning_tokens") or 0,
                "audio_tokens": 0,
            },
        },
    }


def _response(record: UsageRecord) -> Line:
    prompt, completion = record.prompt_tokens, record.completion_tokens
    return {
        **_labels(record, "openai"),
        "request_id": record.request_id,
        "id": "resp_of_no_interest" if record.request_id else None,
        "object": "response",
        "model": record.model,
        "service_tier": tier_of(record) or None,
        "usage": {
            "input_tokens": prompt,
            "output_tokens": completion,
            "total_tokens": prompt + completion,
            "input_tokens_details": _input_details(record),
            "output_tokens_details": {
                "reasoning_tokens": optional(record, "reasoning_tokens") or 0
            },
        },
    }


def _input_details(record: UsageRecord) -> Line | None:
    if record.cached_tokens is None and record.cache_write_tokens is None:
        return None
    return {"cached_tokens": record.cached_tokens, "cache_write_tokens": record.cache_write_tokens}


def _message(record: UsageRecord) -> Line:
    cached, written = record.cached_tokens or 0, record.cache_write_tokens or 0
    hour = optional(record, "cache_write_1h_tokens") or 0
    return {
        **_labels(record, "anthropic"),
        "id": record.request_id,
        "type": "message",
        "model": record.model,
        "usage": {
            "input_tokens": record.prompt_tokens - cached - written,
            "cache_read_input_tokens": record.cached_tokens,
            "cache_creation_input_tokens": record.cache_write_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written - hour,
                "ephemeral_1h_input_tokens": hour,
            },
            "output_tokens": record.completion_tokens,
            **({"speed": "fast"} if tier_of(record) == "fast" else {}),
            "service_tier": (tier_of(record) if tier_of(record) != "fast" else "") or "standard",
        },
    }


_BODY = {"id", "object", "type", "created", "model", "usage", "service_tier", "system_fingerprint"}


def _wrapped(flat: Line, cap: str) -> Line:
    """The provider's object under `response`, its cap under `request`, the labels outside."""
    labels = {name: value for name, value in flat.items() if name not in _BODY}
    declared = labels.pop("declared_max_tokens", None)
    response = {name: value for name, value in flat.items() if name in _BODY}
    if "object" not in response:  # this provider's object has no time
        labels |= {"created": response.pop("created")} if "created" in response else {}
    return {**labels, "request": {"model": flat["model"], cap: declared}, "response": response}
