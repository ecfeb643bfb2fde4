"""Whole logs: several kinds of traffic mixed, repeated lines added, order shuffled."""

from datetime import UTC, datetime, timedelta, timezone
from random import Random

from msgspec.structs import replace

from detectors.contract import UsageRecord
from tests.detectors.reference.pricing_scenarios import (
    bloated_context,
    hashed_prefix,
    long_context,
    overfull,
    short_answers,
    spree,
    unhashed_prefix,
    unread_writes,
)
from tests.detectors.reference.timing_scenarios import (
    capped_answers,
    clean,
    crowd,
    loop,
    oversized_caps,
    repeated_prompt,
    repeated_shape,
    unpriced,
)

SCENARIOS = (
    short_answers,
    spree,
    hashed_prefix,
    unhashed_prefix,
    unread_writes,
    bloated_context,
    repeated_prompt,
    repeated_shape,
    capped_answers,
    oversized_caps,
    loop,
    overfull,
    long_context,
    clean,
    unpriced,
    crowd,
)
# Kinds that rarely come out whole: whole logs hold them more often.
SHY = (
    loop,
    loop,
    repeated_prompt,
    repeated_prompt,
    oversized_caps,
    unhashed_prefix,
    unhashed_prefix,
)


# Days around which some price of the book changes, and a quiet one.
STARTS = (
    datetime(2025, 6, 9, 21, 0, tzinfo=UTC),
    datetime(2026, 3, 12, 22, 30, tzinfo=UTC),
    datetime(2026, 7, 29, 20, 0, tzinfo=UTC),
    datetime(2026, 8, 20, 23, 0, tzinfo=UTC),
    datetime(2026, 9, 9, 15, 0, tzinfo=UTC),
    datetime(2026, 10, 6, 9, 0, tzinfo=UTC),
    datetime(2026, 11, 30, 16, 0, tzinfo=UTC),
)
_OFFSETS = (UTC, UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8)))


def draw_log(seed: int) -> list[UsageRecord]:
    """The same records for the same seed."""
    rng = Random(seed)
    start = rng.choice(STARTS)
    kinds = rng.choice([1, 3, len(SCENARIOS), len(SCENARIOS) + 20])
    chosen = [SCENARIOS[seed % len(SCENARIOS)]]
    chosen += [*SCENARIOS, *SHY] if kinds >= len(SCENARIOS) else []
    chosen += rng.choices(SCENARIOS, k=max(kinds - len(chosen), 0))
    records: list[UsageRecord] = []
    span = rng.choice([0, 3_600, 86_400, 9 * 86_400])
    is_rounded = rng.random() < 0.2
    for scenario in chosen:
        offset = rng.randint(0, span) if span else 0
        records += scenario(rng, start + timedelta(seconds=offset))
    if is_rounded:
        records = [replace(record, ts=record.ts.replace(microsecond=0)) for record in records]
    records = [_elsewhere(rng, record) for record in records] + _repetitions(rng, records)
    rng.shuffle(records)
    return records


def _elsewhere(rng: Random, record: UsageRecord) -> UsageRecord:
    """The same instant, written with another offset from UTC."""
    return replace(record, ts=record.ts.astimezone(rng.choice(_OFFSETS)))


def _repetitions(rng: Random, records: list[UsageRecord]) -> list[UsageRecord]:
    """Lines logged twice, and near misses of that: no id, another id, another latency."""
    repeated = []
    for record in rng.sample(records, min(len(records), rng.choice([0, 3, 10]))):
        named = replace(record, request_id=f"req-{rng.randrange(1_000_000)}")
        echo = replace(
            named,
            cached_tokens=named.cached_tokens or rng.choice([None, 0]),
            tag=named.tag or rng.choice([None, ""]),
        )
        repeated += [named, rng.choice([echo, echo, replace(echo, latency_ms=7.5), record])]
    return repeated
