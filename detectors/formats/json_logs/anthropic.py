"""Anthropic-style lines, flat or wrapped: Messages, including beta members of their usage.

The structs are the allowlist. They have every member of `Message` and `BetaMessage` besides
`content` (https://docs.anthropic.com/en/api/messages), and of `usage` what most lines have;
`rereading` reads the others. Words such as `stop_reason` are checked and
dropped; what may hold text must be null. Anthropic's `input_tokens` exclude cached tokens; a
record's `prompt_tokens` include them. Anthropic's objects have no time: a line
needs `ts` (or `created`).
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from detectors.contract import Count, Label
from detectors.formats.columns import Columns, tier_columns
from detectors.formats.fields import Word
from detectors.formats.json_logs.dialect import (
    Dialect,
    Labels,
    first_given,
    layouts,
    line_columns,
)
from detectors.formats.json_logs.parts import column, cut_parts, given

_ANYWHERE: Final = frozenset({"", "global", "not_available"})


class _CacheCreation(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class _ServerToolUse(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    web_search_requests: Count | None = None
    web_fetch_requests: Count | None = None


class _OutputDetails(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    thinking_tokens: Count | None = None


class _Usage(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    input_tokens: Count
    output_tokens: Count
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation: _CacheCreation | None = None
    output_tokens_details: _OutputDetails | None = None
    server_tool_use: _ServerToolUse | None = None
    service_tier: Label | None = None
    inference_geo: Label | None = None
    speed: Label | None = None


class _Response(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    usage: _Usage
    model: Label | None = None  # a request may name it instead
    id: Label | None = None
    type: Label | None = None
    role: Word | None = None
    stop_reason: Word | None = None
    stop_sequence: None = None  # else the user's own text
    stop_details: None = None
    container: None = None
    context_management: None = None
    diagnostics: None = None
    input_transformations: None = None


def _columns(rows: Sequence[Labels], bodies: Sequence[_Response]) -> Columns:
    moments = first_given([row.ts for row in rows], (row.created for row in rows))
    usages = [body.usage for body in bodies]
    written = []  # the total if it is given, or else the sum of its breakdown by lifetime
    for each in usages:
        total, split = each.cache_creation_input_tokens or 0, each.cache_creation
        if not total and split is not None:
            total = split.ephemeral_5m_input_tokens or 0
            total += split.ephemeral_1h_input_tokens or 0
        written.append(total)
    named = [usage.inference_geo or "" for usage in usages]
    # Where calls were processed, if that was restricted to a region.
    regions = ["" if name in _ANYWHERE else name for name in named]
    read = [usage.cache_read_input_tokens or 0 for usage in usages]
    columns: Columns = {
        "prompt_tokens": [
            usage.input_tokens + cache_write + cache_read
            for usage, cache_write, cache_read in zip(usages, written, read, strict=True)
        ],
        "completion_tokens": [usage.output_tokens for usage in usages],
        "cached_tokens": read,
        "cache_write_tokens": written,
        **tier_columns(
            [
                usage.speed if usage.speed not in (None, "standard") else usage.service_tier
                for usage in usages
            ]
        ),
        **given(
            cache_write_1h_tokens=column(
                [usage.cache_creation for usage in usages], "ephemeral_1h_input_tokens"
            ),
            reasoning_tokens=column(
                [usage.output_tokens_details for usage in usages], "thinking_tokens"
            ),
            web_searches=column([usage.server_tool_use for usage in usages], "web_search_requests"),
            region=regions if any(regions) else None,
        ),
    }
    usage = cut_parts(columns)
    return line_columns(rows, bodies, "anthropic", usage, moments)


ANTHROPIC: Final = Dialect(
    name="anthropic",
    style="Anthropic-style",
    objects="messages",
    text_field="content",
    example='{"id": "msg_1", "type": "message", "ts": "2026-11-01T12:00:00Z",'
    ' "model": "claude-sonnet-4-5", "usage": {"input_tokens": 300,'
    ' "cache_read_input_tokens": 900, "output_tokens": 80}}',
    **layouts(_Response, _columns),
    names={
        "ts": "ts",
        "prompt_tokens": "the sum of usage.input_tokens and the cache tokens",
        "completion_tokens": "usage.output_tokens",
        "cache_write_tokens": "the sum of usage.cache_creation",
    },
    plain_usage={"input_tokens": 0, "output_tokens": 0},
)
