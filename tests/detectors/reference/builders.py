"""Builders of small logs whose statistics are known to the last digit."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from detectors.contract import UsageRecord, UsageRecordV2

START = datetime(2026, 10, 6, 9, 0, tzinfo=UTC)
APART = 2_000.0  # seconds: further than any session, burst or short cache reaches
HASH = "ab" * 32
CLAUDE = {"provider": "anthropic", "model": "claude-sonnet-4-5"}  # $3, $0.30, $3.75, $6, $15


def call(ts: datetime, prompt: int, completion: int, **fields: object) -> UsageRecord:
    known: dict[str, object] = {"provider": "openai", "model": "gpt-4.1", "tag": "route"}
    return UsageRecordV2(
        ts=ts,
        prompt_tokens=prompt,
        completion_tokens=completion,
        **{**known, **fields},  # type: ignore[arg-type]
    )


def at(seconds: float, prompt: int, completion: int, **fields: object) -> UsageRecord:
    return call(START + timedelta(seconds=seconds), prompt, completion, **fields)


def series(
    gaps: Iterable[float], prompt: int = 100, completion: int = 50, **fields: object
) -> list[UsageRecord]:
    """Return equal calls, one at the start and one after each gap in seconds."""
    offsets = accumulate(gaps, initial=0.0)
    return [at(offset, prompt, completion, **fields) for offset in offsets]


def answers(completions: Sequence[int], gap: float = APART, **fields: object) -> list[UsageRecord]:
    """Return calls that differ in their answers alone."""
    return [
        at(gap * number, 100, completion, **fields) for number, completion in enumerate(completions)
    ]


def hashed(count: int, gap: float, prompt: int = 2_000) -> list[UsageRecord]:
    return series([gap] * (count - 1), prompt=prompt, completion=900, prefix_hash=HASH)


def rewritten(gap: float, more: int = 0, **fields: object) -> list[UsageRecord]:
    """Return two calls that write their cache, the second so many tokens more."""
    return [
        at(gap * number, 15_000, 900, cache_write_tokens=10_000 + more * number, **fields, **CLAUDE)
        for number in range(2)
    ]


def unhashed(prompts: Sequence[int]) -> list[UsageRecord]:
    return [at(60.0 * number, prompt, 900, **CLAUDE) for number, prompt in enumerate(prompts)]


def bloat(
    long_prompts: Sequence[int], others: int, other_routes: Sequence[str] = ("b", "c")
) -> list[UsageRecord]:
    """Return a route with these prompts among others of 1,000 tokens; answers are alike."""
    heavy = [
        at(APART * number, prompt, 600, tag="a", model="gpt-5-nano")
        for number, prompt in enumerate(long_prompts)
    ]
    usual = [
        at(
            APART * number + 1,
            1_000,
            600,
            tag=other_routes[number % len(other_routes)],
            model="gpt-4o-mini",
        )
        for number in range(others)
    ]
    return heavy + usual


def one_prompt_of_many(same: int) -> list[UsageRecord]:
    """Return 100 calls with one hash, so many of which have the same length."""
    records = series([1.0] * (same - 1), prompt=500, completion=5, prefix_hash=HASH)
    return records + [
        at(3_600.0 + number, 501 + number, 5, prefix_hash=HASH) for number in range(100 - same)
    ]


def interleaved(same: int) -> list[UsageRecord]:
    """Return 100 calls a second apart, so many of one shape, evenly from first to last."""
    shaped = {round(number * 99 / (same - 1)) for number in range(same)}
    return [
        at(float(number), 5_000 if number in shaped else 6_000 + number, 30)
        for number in range(100)
    ]


def bursts(sizes: Sequence[int], completions: Sequence[int]) -> list[UsageRecord]:
    """Return bursts of one short hashed prompt, whose answers have these lengths in turn."""
    return [
        at(APART * number + place, 500, completions[place % len(completions)], prefix_hash=HASH)
        for number, size in enumerate(sizes)
        for place in range(size)
    ]


def capped(cap: int, completions: Sequence[int]) -> list[UsageRecord]:
    return answers(completions, declared_max_tokens=cap)


def asked_again(cut: int, repeats: int, pause: float = 60.0, more: int = 0) -> list[UsageRecord]:
    """Return answers cut at 200 tokens; so many are asked for again, with so many tokens more."""
    limit = {"declared_max_tokens": 200}
    records = [at(APART * number, 1_000, 200, **limit) for number in range(cut)]
    again = [at(APART * number + pause, 1_000 + more, 600) for number in range(repeats)]
    return records + again


def loop(
    gaps: Iterable[float],
    completions: Sequence[int] = (),
    *,
    hashed_calls: int | None = None,
    latency_ms: float | None = None,
    timed_calls: int | None = None,
) -> list[UsageRecord]:
    """Return one session; every call carries the same hash, or only so many do."""
    offsets = list(accumulate(gaps, initial=0.0))
    lengths = completions or [10] * len(offsets)
    proven = len(offsets) if hashed_calls is None else hashed_calls
    timed = len(offsets) if timed_calls is None else timed_calls
    return [
        at(
            offset,
            1_500 + number,
            completion,
            prefix_hash=HASH if number < proven else None,
            latency_ms=latency_ms if number < timed else None,
        )
        for number, (offset, completion) in enumerate(zip(offsets, lengths, strict=True))
    ]
