"""The upload form's table of columns: a CSV of another tool, and the fields that they become.

A column of the file is shown by its name only if that looks like a name, and is sent by position,
so the page repeats nothing else of a file.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from flask import g

from detectors.contract import FIELD_NAME, REQUIRED_FIELDS
from detectors.formats import (
    BESIDE_UNCACHED,
    DIALECTS,
    SYNONYMS,
    TARGETS,
    TEXT_COLUMNS,
    ColumnMapping,
    plain,
    propose,
)
from detectors.formats.adapters import all_sums, export_signs
from detectors.formats.json_logs.records import RECORDS
from detectors.formats.json_logs.shapes import outline

# A file with more columns is mapped by a program.
MAX_SHOWN: Final = 200
PROVIDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "openai": "OpenAI",
        "anthropic": "Anthropic",
        "google": "Google",
        "azure": "Azure",
        "aws": "AWS Bedrock",
        "openrouter": "OpenRouter",
        "mistral": "Mistral",
        "deepseek": "DeepSeek",
        "x-ai": "xAI",
        "cohere": "Cohere",
        "groq": "Groq",
        "together": "Together",
        "fireworks": "Fireworks",
    }
)
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ts": "Time",
        "provider": "Model provider",
        "model": "Model",
        "prompt_tokens": "Input tokens, cached included",
        "uncached_prompt_tokens": "Input tokens, cached not included",
        "completion_tokens": "Output tokens",
        "cached_tokens": "Cached input tokens",
        "cache_write_tokens": "Cache write tokens",
        "latency_ms": "Latency in milliseconds",
        "request_id": "Request ID",
        "tag": "Tag: service, team or feature",
        "declared_max_tokens": "max_tokens limit",
    }
)


class Target(NamedTuple):
    """A field that a column can become, and the names that other tools give to it."""

    field: str
    words: str
    synonyms: str


class ShownColumn(NamedTuple):
    """A row of the table; `field` is chosen, None if nothing is, and empty to drop it."""

    position: int
    name: str
    field: str | None
    is_text: bool


def mapping_context(columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the form needs to map columns, with these columns of a refused file."""
    sent: ColumnMapping | None = g.get("upload_mapping")
    return {
        "columns": _show(columns[:MAX_SHOWN], sent),
        "provider": sent.provider if sent else "",
        "providers": PROVIDERS,
        "targets": _targets(),
        "export_signs": export_signs(),
        "totals": [
            {"names": sorted(names), "refusal": sums.refusal()}
            for sums in all_sums()
            for names in sums.signs
        ],
        "allowlists": _allowlists(),
        "text_columns": sorted(TEXT_COLUMNS),
        "beside_uncached": sorted(BESIDE_UNCACHED),
    }


@cache
def _allowlists() -> dict[str, str]:
    """Return what objects of each dialect may have, flat and beside their request."""
    return {
        f"{dialect.name}-{name}": outline(layout.shape)
        for dialect in (*DIALECTS, RECORDS)
        for name, layout in (("flat", dialect.flat), ("wrapped", dialect.wrapped))
    }


@cache
def _targets() -> list[Target]:
    order = [name for name in _WORDS if name in TARGETS]
    return [
        Target(name, _WORDS.get(name, name), " ".join(SYNONYMS.get(name, ())))
        for name in (*order, *(name for name in TARGETS if name not in _WORDS))
    ]


def _show(cells: Sequence[str], sent: ColumnMapping | None) -> list[ShownColumn]:
    return [
        ShownColumn(
            number,
            _shown_name(column.name, number),
            _chosen(column.name, number, sent) if sent else column.field or None,
            column.is_text,
        )
        for number, column in enumerate(propose(cells), 1)
    ]


def _shown_name(name: str, number: int) -> str:
    is_known = FIELD_NAME.fullmatch(name) or plain(name) in _KNOWN
    return name if is_known else f"Column {number}"


def _chosen(name: str, number: int, sent: ColumnMapping) -> str | None:
    """Return the field that was sent for the column."""
    for own in (f"#{number}", name):
        if own in sent.columns:
            return sent.columns[own]
        if own in sent.dropped:
            return ""
    return name if name in TARGETS else None


_KNOWN: Final = frozenset(
    {*REQUIRED_FIELDS, *TARGETS, *TEXT_COLUMNS}.union(*map(set, SYNONYMS.values()))
)
