"""The units of the price book that a record's `units` may count, and which are parts of which.

They are those of the registry of the installed genai-prices, which a test compares, so that an
update of prices never changes what is accepted. `detectors/contract/units.py` is a link to this
file, which needs nothing but Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_UNITS = 16
_MOST = 1_000_000_000_000  # of each
# Units that a field of the record counts, so that they are never in `units`.
FIELDS_OF_UNITS = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cache_read_tokens": "cached_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "cache_write_1h_tokens": "cache_write_1h_tokens",
    "output_reasoning_tokens": "reasoning_tokens",
    "input_audio_tokens": "audio_prompt_tokens",
    "output_audio_tokens": "audio_completion_tokens",
    "input_image_tokens": "image_prompt_tokens",
    "output_image_tokens": "image_completion_tokens",
    "web_searches": "web_searches",
}
_INPUTS = {
    "text": "input_text_tokens",
    "audio": "audio_prompt_tokens",
    "image": "image_prompt_tokens",
    "video": "input_video_tokens",
}
_OUTPUTS = {
    "text": "output_text_tokens",
    "audio": "audio_completion_tokens",
    "image": "image_completion_tokens",
    "video": "output_video_tokens",
}


def _of_each_kind(name: str) -> tuple[str, ...]:
    return tuple(name.format(kind) for kind in _INPUTS)


# Each total, a field or a unit, and its parts of one kind, which are disjoint.
SHARES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("prompt_tokens", tuple(_INPUTS.values())),
    ("prompt_tokens", ("cached_tokens", "cache_write_tokens", "input_tool_tokens")),
    ("completion_tokens", tuple(_OUTPUTS.values())),
    ("completion_tokens", ("reasoning_tokens", "output_citation_tokens")),
    ("cached_tokens", _of_each_kind("cache_{}_read_tokens")),
    ("cache_write_tokens", _of_each_kind("cache_{}_write_tokens")),
    ("cache_write_tokens", ("cache_write_5m_tokens", "cache_write_1h_tokens")),
    ("cache_write_5m_tokens", _of_each_kind("cache_{}_write_5m_tokens")),
    ("cache_write_1h_tokens", _of_each_kind("cache_{}_write_1h_tokens")),
    ("input_tool_tokens", _of_each_kind("input_{}_tool_tokens")),
    ("reasoning_tokens", _of_each_kind("output_{}_reasoning_tokens")),
    ("output_citation_tokens", _of_each_kind("output_{}_citation_tokens")),
    *(
        (
            whole,
            (
                f"cache_{kind}_read_tokens",
                f"cache_{kind}_write_tokens",
                f"input_{kind}_tool_tokens",
            ),
        )
        for kind, whole in _INPUTS.items()
    ),
    *(
        (
            f"cache_{kind}_write_tokens",
            (f"cache_{kind}_write_5m_tokens", f"cache_{kind}_write_1h_tokens"),
        )
        for kind in _INPUTS
    ),
    *(
        (whole, (f"output_{kind}_reasoning_tokens", f"output_{kind}_citation_tokens"))
        for kind, whole in _OUTPUTS.items()
    ),
    ("audio_seconds", ("input_audio_seconds", "output_audio_seconds")),
    ("input_document_pages", ("input_annotated_document_pages",)),
)
_WITHOUT_PARTS = (
    *("input_characters", "input_text_messages", "input_pixels", "rerank_searches"),
    *("social_searches", "storage_searches", "code_executions"),
)
UNITS = (
    tuple(
        name
        for name in dict.fromkeys(name for total, parts in SHARES for name in (total, *parts))
        if name not in FIELDS_OF_UNITS.values()
    )
    + _WITHOUT_PARTS
)
# Durations, which may have decimals; all other units are counts.
SECONDS = ("audio_seconds", "input_audio_seconds", "output_audio_seconds")


def find_excess(counts: Mapping[str, float], units: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return each unit with which a total is exceeded, and the total.

    `counts` are the record's fields, which are 0 where they are absent; a total that is a unit may
    be unknown.
    """
    found = []
    for total, parts in SHARES:
        given = [part for part in parts if units.get(part)]
        if given and (units.get(total) or total not in UNITS):
            whole = units.get(total) or counts.get(total) or 0
            if sum(units.get(part) or counts.get(part) or 0 for part in parts) > whole:
                found.append((given[-1], total))
    return found


def fit_units(counts: Mapping[str, float], units: Mapping[str, object]) -> dict[str, float]:
    """Return the units that a record with these counts may have, each cut to what its total leaves.

    Names and values that no record may have are dropped, and so are units beyond the sixteenth.
    """
    known = [name for name in UNITS if units.get(name) and is_amount(name, units[name])]
    kept: dict[str, Any] = {name: units[name] for name in known[:MAX_UNITS]}
    # Totals come before their parts.
    for total, parts in SHARES:
        given = [part for part in parts if kept.get(part)]
        if given and (kept.get(total) or total not in UNITS):
            left = kept.get(total) or counts.get(total) or 0
            left -= sum(counts.get(part) or 0 for part in parts if part not in UNITS)
            for part in given:
                kept[part] = min(kept[part], max(left, 0))
                left -= kept[part]
    return {name: amount for name, amount in kept.items() if amount}


def is_amount(name: str, value: object) -> bool:
    if type(value) is int or (type(value) is float and name in SECONDS):
        return 0 <= value <= _MOST
    return False
