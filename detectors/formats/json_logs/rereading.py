"""Lines with a usage that the fast structs don't have: the one reader of usage reads these.

The rest of such a line is examined as any other. Numbers in its usage are read, or named as
unknown; what may hold text is refused there, too.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from detectors.contract import FIELD_NAME, MAX_LABEL_LENGTH, Label
from detectors.formats.chunks import Chunk, join_chunks
from detectors.formats.columns import UNKNOWN, UNKNOWN_LARGEST, Columns, optional_columns
from detectors.formats.json_logs.dialect import Dialect, Layout
from detectors.formats.json_logs.shapes import NO_NAME, Examination, examine
from detectors.formats.json_logs.usage.reader import (
    Reading,
    largest_of,
    names_of,
    read_usage,
    tier_of,
    unknown_tier,
)

_USAGES: Final = ("usage", "usage_info")
_BESIDE: Final = ("tool_usage", "svg_usage", "serviceTier")
# Members of usage objects that are words, not texts: names of tiers, regions, models and kinds.
_WORDS: Final = frozenset(
    (
        *("service_tier", "serviceTier", "traffic_type", "trafficType", "speed", "inference_geo"),
        *("type", "ttl", "modality", "model", "cache_type", "search_context_size", "reason"),
        "remove_to_redeem",  # names of parameters, in Anthropic's fallback credit
    )
)
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}")


class Reread(NamedTuple):
    """The calls of one line: more than one if its usage has calls within the call."""

    numbers: list[int]
    columns: Columns

    def as_columns(self) -> Columns:
        return self.columns

    def find_odd(self, columns: Columns) -> set[int]:
        return set()


def reread(
    document: dict[str, Any], number: int, dialect: Dialect, layout: Layout
) -> Reread | Examination | None:
    """Read a line with an unusual usage; return what else is wrong, or None without counts."""
    response = document.get("response")
    body = response if isinstance(response, dict) else document
    beside = {name: body[name] for name in _BESIDE if name in body}
    kept = {k: v for k, v in body.items() if k not in beside and k not in _USAGES}
    plain = {**kept, "usage": dict(dialect.plain_usage)}
    if body is not document:
        plain = {**document, "response": plain}
    usage = next((body[name] for name in _USAGES if isinstance(body.get(name), dict)), None)
    if usage is None:
        return None
    found = examine(plain, layout.shape)
    path = "" if body is document else "response"
    texts = list(dict.fromkeys(_texts_within({"usage": usage, **beside}, path)))
    if found.unknown_fields or texts:
        found.unknown_fields += texts
        return found
    if found.problems:
        return found
    row = msgspec.convert(found.values, layout.struct)
    columns = layout.to_columns([row])
    readings = read_usage(
        usage,
        provider=columns["provider"][0],
        model=columns["model"][0],
        beside=beside,
        may_lack_output=body.get("object") == "list",
    )
    if not readings:
        return None
    said = beside.get("serviceTier")
    said = said.get("type") if isinstance(said, dict) else said
    tier, odd = tier_of(said), unknown_tier(said)
    for name in filter(None, (odd, *columns.pop(UNKNOWN, ()))):
        readings[0].unknown[name] = 0
    rows = [_columns_of(columns, each, place, tier) for place, each in enumerate(readings)]
    joined = rows[0] if len(rows) == 1 else join_chunks([Chunk(row, []) for row in rows]).columns
    return Reread([number] * len(rows), joined)


def _texts_within(value: Any, path: str, *, is_word: bool = False) -> Iterator[str]:
    """Yield the names of what may hold text; numbers, and words where words belong, can't."""
    if isinstance(value, str):
        if value and not (is_word and _WORD.fullmatch(value)):
            yield path
    elif isinstance(value, list):
        for item in value:
            yield from _texts_within(item, path, is_word=is_word)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if FIELD_NAME.fullmatch(key):
                name = f"{path}.{key}" if path else key
                yield from _texts_within(inner, name, is_word=key in _WORDS)
            else:
                yield f"{NO_NAME} in {path}"


def _columns_of(line: Columns, reading: Reading, place: int, tier: str | None) -> Columns:
    columns = dict(line)
    tier = reading.service_tier if reading.service_tier == "fast" else tier or reading.service_tier
    columns |= {
        "prompt_tokens": [reading.prompt],
        "completion_tokens": [reading.completion],
        "cached_tokens": [reading.cached or 0],
        "cache_write_tokens": [reading.written or 0],
        "service_tier": [line["service_tier"][0] or tier or ""],
    }
    own: dict[str, Any] = {
        **reading.parts,
        "region": reading.region,
        "units": reading.units or None,
        "reported_usd": reading.reported_usd,
        UNKNOWN: names_of(reading.unknown),
        UNKNOWN_LARGEST: largest_of(reading.unknown),
    }
    for name, value in own.items():
        if value is not None and not line.get(name, [None])[0]:
            columns |= optional_columns(name, [value])
    if place:
        request_id, model = line["request_id"][0], line["model"][0]
        with suppress(msgspec.ValidationError):
            model = msgspec.convert(reading.model, Label) or model
        columns |= {
            "model": [model],
            "request_id": [request_id and f"{request_id}.{place + 1}"[:MAX_LABEL_LENGTH]],
            "latency_ms": [None],
            "declared_max_tokens": [0],
            "prefix_hash": [""],
        }
    return columns
