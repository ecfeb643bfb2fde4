"""Whole logs: several kinds of traffic mixed, repeated lines added, order shuffled."""

from datetime import UTC, datetime, timedelta, timezone
from random import Random

from msgspec.structs import replace

from detectors.contract import UsageRecord
from tests.detectors.reference.cache_scenarios import (
    chat,
    edged_ladder,
    expiring_cache,
    hashed_prefix,
    laddered_prefix,
    unhashed_prefix,
    unread_writes,
)
from tests.detectors.reference.loop_scenarios import laddered_loop, loop
from tests.detectors.reference.pricing_scenarios import (
    bloated_context,
    fees,
    legacy_models,
    long_context,
    long_past_windows,
    overfull,
    short_answers,
    spree,
)
from tests.detectors.reference.sources import Source
from tests.detectors.reference.timing_scenarios import (
    asked_again,
    capped_answers,
    clean,
    crowd,
    oversized_caps,
    repeated_prompt,
    repeated_shape,
    sampled_answers,
    unpriced,
)

SCENARIOS = (
    short_answers,
    legacy_models,
    long_past_windows,
    spree,
    hashed_prefix,
    chat,
    unhashed_prefix,
    unread_writes,
    expiring_cache,
    bloated_context,
    repeated_prompt,
    sampled_answers,
    repeated_shape,
    capped_answers,
    asked_again,
    oversized_caps,
    loop,
    overfull,
    long_context,
    fees,
    clean,
    unpriced,
    crowd,
)
# Kinds that rarely come out whole: whole logs hold them more often.
SHY = (
    loop,
    loop,
    bloated_context,
    repeated_prompt,
    repeated_prompt,
    sampled_answers,
    asked_again,
    asked_again,
    chat,
    expiring_cache,
    oversized_caps,
    unhashed_prefix,
)
_DAY = 86_400
SPANS = (0, 3_600, _DAY, 9 * _DAY, 31 * _DAY, 90 * _DAY)


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
MODELS_OF_ROUTES = (("openai", "gpt-4.1"), ("openai", "gpt-5-mini"), ("anthropic", "claude-3-opus"))
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
    span = SPANS[seed // len(SCENARIOS) % len(SPANS)] if seed % 2 else rng.choice(SPANS)
    is_rounded = rng.random() < 0.2
    for scenario in chosen:
        offset = rng.randint(0, span) if span else 0
        records += scenario(rng, start + timedelta(seconds=offset))
    if is_rounded:
        records = [replace(record, ts=record.ts.replace(microsecond=0)) for record in records]
    records += _strays(rng, start, len(records))
    records = [_elsewhere(rng, record) for record in records] + _repetitions(rng, records)
    rng.shuffle(records)
    return records


def draw_ladders(seed: int) -> list[UsageRecord]:
    """Return calls with hashes by level among calls of every other kind."""
    rng = Random(seed)
    start = rng.choice(STARTS)
    records = draw_log(seed) if seed % 3 == 0 else []
    for scenario in rng.choices((laddered_prefix, laddered_prefix, laddered_loop), k=12):
        records += scenario(rng, start + timedelta(seconds=rng.randint(0, 9_000)))
    if rng.random() < 0.3:
        records = [replace(record, ts=record.ts.replace(microsecond=0)) for record in records]
    records += _repetitions(rng, records)
    rng.shuffle(records)
    return records


def draw_edges(seed: int) -> list[UsageRecord]:
    """Return few calls of few routes, most of them on some edge of the rules for levels."""
    rng = Random(seed)
    records: list[UsageRecord] = []
    for _ in range(12):
        records += edged_ladder(rng, STARTS[-2])
    rng.shuffle(records)
    return records


def _strays(rng: Random, start: datetime, calls: int) -> list[UsageRecord]:
    """Return a few calls of other years: as many as are stray, or one too many."""
    count = rng.choice([0, 0, 0, 1, 1, 2, calls // 100, calls // 100 + 1])
    source = Source(rng, start, "openai", "gpt-4.1", rng.choice(["route-1", "old"]), None)
    away = rng.choice([-9_000, -400, -31, 31 + 90, 9_000])
    ahead = rng.choice([away, away, -away])
    return [
        source.call(start + timedelta(days=rng.choice([away, ahead])), 500_000, 90)
        for _ in range(count)
    ]


def draw_crowd_of_routes(seed: int, routes: int = 520) -> list[UsageRecord]:
    """Return more findings than a report lists: some alike to the cent, some under a cent."""
    rng = Random(seed)
    records: list[UsageRecord] = []
    for number in range(routes):
        first = STARTS[0] + timedelta(minutes=number)
        source = Source(rng, first, *rng.choice(MODELS_OF_ROUTES), f"route-{number:04}", None)
        prompt, kind = rng.choice([100, 4_000, 4_000, 40_000]), rng.randrange(3)
        cap = 4_000 if kind == 2 else None
        count = 20 if kind == 2 and number % 4 == 0 else 5
        records += [
            source.call(first + timedelta(hours=at), prompt, 100, declared_max_tokens=cap)
            for at in range(count)
        ]
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
