"""Builders of small logs whose statistics are known to the last digit."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from detectors.contract import UsageRecord

START = datetime(2026, 10, 6, 9, 0, tzinfo=UTC)
APART = 2_000.0  # seconds: further than any session, burst or cache reaches
HASH = "ab" * 32


def call(ts: datetime, prompt: int, completion: int, **fields: object) -> UsageRecord:
    known: dict[str, object] = {"provider": "openai", "model": "gpt-4.1", "tag": "route"}
    return UsageRecord(
        ts=ts,
        prompt_tokens=prompt,
        completion_tokens=completion,
        **{**known, **fields},  # type: ignore[arg-type]
    )


def series(
    gaps: Iterable[float], prompt: int = 100, completion: int = 50, **fields: object
) -> list[UsageRecord]:
    """Equal calls, one at the start and one after each gap in seconds."""
    times = [START + timedelta(seconds=offset) for offset in accumulate(gaps, initial=0.0)]
    return [call(ts, prompt, completion, **fields) for ts in times]


def answers(completions: Sequence[int], gap: float = APART, **fields: object) -> list[UsageRecord]:
    """Calls that differ in their answers alone."""
    times = (START + timedelta(seconds=gap * number) for number in range(len(completions)))
    return [
        call(ts, 100, completion, **fields)
        for ts, completion in zip(times, completions, strict=True)
    ]


def hashed(count: int, gap: float) -> list[UsageRecord]:
    return series([gap] * (count - 1), prompt=2_000, completion=900, prefix_hash=HASH)


def unhashed(prompts: Sequence[int]) -> list[UsageRecord]:
    model = {"provider": "anthropic", "model": "claude-sonnet-4-5"}
    times = (START + timedelta(minutes=number) for number in range(len(prompts)))
    return [call(ts, prompt, 900, **model) for ts, prompt in zip(times, prompts, strict=True)]


def bloat(
    long_prompts: Sequence[int], others: int, other_routes: Sequence[str] = ("b", "c")
) -> list[UsageRecord]:
    """A route with these prompts among others of 1,000 tokens; all answers of one length."""
    plain = {"model": "gpt-5-nano"}
    heavy = [
        call(START + timedelta(seconds=APART * number), prompt, 600, tag="a", **plain)
        for number, prompt in enumerate(long_prompts)
    ]
    usual = [
        call(
            START + timedelta(seconds=APART * number + 1),
            1_000,
            600,
            tag=other_routes[number % len(other_routes)],
            model="gpt-4o-mini",
        )
        for number in range(others)
    ]
    return heavy + usual


def one_prompt_of_many(same: int) -> list[UsageRecord]:
    """100 calls with one hash, so many of which have the same length."""
    records = series([1.0] * (same - 1), prompt=500, completion=5, prefix_hash=HASH)
    later = START + timedelta(hours=1)
    return records + [
        call(later + timedelta(seconds=number), 501 + number, 5, prefix_hash=HASH)
        for number in range(100 - same)
    ]


def interleaved(same: int) -> list[UsageRecord]:
    """100 calls a second apart, so many of one shape: the first, the last, and evenly between."""
    places = {round(number * 99 / (same - 1)) for number in range(same)}
    return [
        call(START + timedelta(seconds=place), 5_000 if place in places else 6_000 + place, 30)
        for place in range(100)
    ]


def capped(cap: int, completions: Sequence[int]) -> list[UsageRecord]:
    return answers(completions, declared_max_tokens=cap)


def loop(
    gaps: Iterable[float], completions: Sequence[int] = (), *, hashed_calls: int | None = None
) -> list[UsageRecord]:
    """One session; every call carries the same hash, or only so many do."""
    records = series(gaps, prompt=1_500, completion=10)
    lengths = completions or [10] * len(records)
    proven = len(records) if hashed_calls is None else hashed_calls
    return [
        call(
            record.ts,
            1_500 + number,
            completion,
            prefix_hash=HASH if number < proven else None,
        )
        for number, (record, completion) in enumerate(zip(records, lengths, strict=True))
    ]
