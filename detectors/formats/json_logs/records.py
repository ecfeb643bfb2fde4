"""Lines of usage records: the API's own form, one record of either version per line.

`POST /api/v2/ingest` takes them as batches, and uploads as files.
"""

from collections.abc import Sequence
from typing import Any, Final

from detectors.contract import Count, ModelName
from detectors.formats.columns import Columns, tier_columns
from detectors.formats.json_logs.dialect import (
    USAGE_FIELDS,
    Dialect,
    Labels,
    first_given,
    label_columns,
    layout,
    to_microseconds,
    with_fields,
    with_more_labels,
)
from detectors.formats.json_logs.parts import column, given


class _Record(Labels, kw_only=True, forbid_unknown_fields=True, gc=False):
    model: ModelName
    prompt_tokens: Count
    completion_tokens: Count
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


_PARTS: Final = tuple(field.name for field in USAGE_FIELDS if field.part)


def _columns(rows: Sequence[_Record]) -> Columns:
    return {
        **label_columns(rows, ""),
        "ts": to_microseconds(first_given([row.ts for row in rows], (row.created for row in rows))),
        "model": [row.model for row in rows],
        "request_id": [row.request_id or "" for row in rows],
        "prompt_tokens": [row.prompt_tokens for row in rows],
        "completion_tokens": [row.completion_tokens for row in rows],
        "cached_tokens": [row.cached_tokens or 0 for row in rows],
        "cache_write_tokens": [row.cache_write_tokens or 0 for row in rows],
        "service_tier": [""] * len(rows),
    }


def _columns_with_parts(rows: Sequence[Any]) -> Columns:
    return {
        **_columns(rows),
        **tier_columns([row.service_tier for row in rows]),
        **given(**{name: column(rows, name) for name in _PARTS}),
    }


_WITH_PARTS: Final = layout(
    with_more_labels(with_fields(_Record, USAGE_FIELDS)), _columns_with_parts
)

RECORDS: Final = Dialect(
    name="records",
    style="Usage-record",
    objects="records",
    text_field="content",
    example='{"ts": "2026-11-01T12:00:00Z", "provider": "openai", "model": "gpt-4o-mini",'
    ' "prompt_tokens": 1200, "completion_tokens": 80, "tag": "support-bot"}',
    flat=_WITH_PARTS,
    wrapped=_WITH_PARTS,  # records are never wrapped
    without_more_labels=(layout(_Record, _columns), _WITH_PARTS),
    names={},
)
