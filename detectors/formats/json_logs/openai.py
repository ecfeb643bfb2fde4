"""OpenAI-style lines, flat or wrapped: Chat Completions, Completions, Embeddings, Responses.

The structs are the allowlist. Their members are those of OpenAI's published types, including the
usage of images: https://platform.openai.com/docs/api-reference/chat/object. Any other field breaks
the counts-only contract, and so does a member that may hold text, unless it is null.
"""

from collections.abc import Sequence
from operator import add, gt
from typing import Final

from msgspec import Struct

from detectors.contract import Count, Label
from detectors.formats.columns import Columns, tier_columns
from detectors.formats.json_logs.dialect import (
    Dialect,
    Labels,
    Moment,
    first_given,
    layouts,
    line_columns,
)
from detectors.formats.json_logs.parts import column, cut_parts, filled, given


class _InputDetails(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """`prompt_tokens_details` and `input_tokens_details`."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    audio_tokens: Count | None = None
    image_tokens: Count | None = None
    text_tokens: Count | None = None


class _OutputDetails(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """`completion_tokens_details` and `output_tokens_details`."""

    reasoning_tokens: Count | None = None
    audio_tokens: Count | None = None
    image_tokens: Count | None = None
    text_tokens: Count | None = None
    accepted_prediction_tokens: Count | None = None
    rejected_prediction_tokens: Count | None = None


class _Usage(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The usage of every endpoint, as most lines have it; `rereading` reads the others."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Response(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    usage: _Usage
    model: Label | None = None  # a request may name it instead
    created: Moment = None
    created_at: Moment = None  # as objects of the Responses API call it
    id: Label | None = None
    object: Label | None = None
    service_tier: Label | None = None
    system_fingerprint: Label | None = None
    metadata: None = None  # else the user's own text
    moderation: None = None


_NO_DETAILS: Final = _InputDetails()


def _columns(rows: Sequence[Labels], bodies: Sequence[_Response]) -> Columns:
    moments = first_given(
        [row.created if row.ts is None else row.ts for row in rows],
        *((body.created for body in bodies), (body.created_at for body in bodies)),
    )
    usages = [body.usage for body in bodies]
    completions: list[int | None] = first_given(
        [usage.completion_tokens for usage in usages], (usage.output_tokens for usage in usages)
    )
    if None in completions:
        # Embeddings have no output and report no completion tokens.
        is_embedding = (
            body.usage.prompt_tokens is not None
            and (body.object == "list" or body.usage.total_tokens == body.usage.prompt_tokens)
            for body in bodies
        )
        pairs = zip(completions, is_embedding, strict=True)
        completions = [0 if n is None and is_one else n for n, is_one in pairs]
    details = first_given(
        [usage.prompt_tokens_details for usage in usages],
        (usage.input_tokens_details for usage in usages),
    )
    if None in details:
        details = [detail or _NO_DETAILS for detail in details]
    answers = first_given(
        [usage.completion_tokens_details for usage in usages],
        (usage.output_tokens_details for usage in usages),
    )
    columns: Columns = {
        "prompt_tokens": first_given(
            [usage.prompt_tokens for usage in usages], (usage.input_tokens for usage in usages)
        ),
        "completion_tokens": completions,
        "cached_tokens": [detail.cached_tokens or 0 for detail in details],
        "cache_write_tokens": [detail.cache_write_tokens or 0 for detail in details],
        **tier_columns([body.service_tier for body in bodies]),
        **given(
            audio_prompt_tokens=filled([detail.audio_tokens for detail in details]),
            image_prompt_tokens=filled([detail.image_tokens for detail in details]),
            reasoning_tokens=column(answers, "reasoning_tokens"),
            audio_completion_tokens=column(answers, "audio_tokens"),
            image_completion_tokens=column(answers, "image_tokens"),
        ),
    }
    return line_columns(rows, bodies, "openai", cut_parts(columns), moments)


def _find_odd(bodies: Sequence[_Response], columns: Columns) -> set[int]:
    """Return the rows in which a part exceeds its whole, or the total is another than theirs."""
    prompts, answers = columns["prompt_tokens"], columns["completion_tokens"]
    caches = list(map(add, columns["cached_tokens"], columns["cache_write_tokens"]))
    thoughts = columns.get("reasoning_tokens") or [0] * len(bodies)
    totals = [body.usage.total_tokens for body in bodies]
    if None not in prompts and None not in answers:
        adds_up = "reasoning_tokens" not in columns or totals == list(map(add, prompts, answers))
        if adds_up and not any(map(gt, caches, prompts)):
            return set()
    odd = set()
    counts = zip(prompts, answers, caches, thoughts, totals, strict=True)
    for row, (prompt, answer, cached, reasoning, total) in enumerate(counts):
        if prompt is not None and answer is not None:
            # xAI's reasoning is beside the answer, as its total says; here, a part is cut to its
            # whole.
            is_apart = reasoning >= answer if total is None else total != prompt + answer
            if cached > prompt or (reasoning > 0 and is_apart):
                odd.add(row)
    return odd


OPENAI: Final = Dialect(
    name="openai",
    style="OpenAI-style",
    objects="responses",
    text_field="choices",
    example='{"id": "chatcmpl-1", "object": "chat.completion", "created": 1790000000,'
    ' "model": "gpt-4o-mini", "usage": {"prompt_tokens": 1200, "completion_tokens": 80},'
    ' "tag": "support-bot"}',
    **layouts(_Response, _columns, _find_odd),
    names={
        "ts": "created, created_at or ts",
        "prompt_tokens": "usage.prompt_tokens or usage.input_tokens",
        "completion_tokens": "usage.completion_tokens or usage.output_tokens",
    },
    plain_usage={"prompt_tokens": 0, "completion_tokens": 0},
)
