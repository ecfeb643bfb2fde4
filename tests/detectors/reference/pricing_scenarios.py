"""Traffic around the limits of d1, d2 and d3, and calls that are hard to price.

A drawn case may lie on either side of a limit; the reference and the rules must merely agree.
"""

from datetime import datetime
from random import Random

from detectors.contract import UsageRecord
from tests.detectors.reference.sources import (
    CHANGING_PRICES,
    CLAUDES,
    FLAGSHIPS,
    PRICED,
    SMALL,
    clock,
    draw_hash,
    draw_source,
)


def short_answers(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, FLAGSHIPS)
    times = clock(source, lambda: rng.uniform(40, 4_000))
    usual = rng.choice([20, 100, 140, 150, 160])
    spread = rng.choice([5, 40, 300])
    longest = rng.choice([900, 3_000, 250_000])
    is_cached = rng.random() < 0.3
    records = []
    for _ in range(rng.choice([4, 5, 6, 12, 30])):
        prompt = rng.choice([0, 40, longest, longest, longest])
        cached = rng.randint(0, prompt) if is_cached else None
        completion = usual + rng.randint(-20, spread)
        records.append(source.call(next(times), prompt, completion, cached_tokens=cached))
    return records


def spree(rng: Random, start: datetime) -> list[UsageRecord]:
    """A few calls that cost as much as all others together."""
    source = draw_source(rng, start, (("openai", "gpt-5.5-pro"), ("anthropic", "claude-opus-4-1")))
    times = clock(source, lambda: rng.uniform(40, 600))
    return [
        source.call(next(times), rng.randint(150_000, 260_000), rng.choice([90, 140, 160]))
        for _ in range(rng.choice([1, 6, 14]))
    ]


def hashed_prefix(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, (*FLAGSHIPS, *CLAUDES, *CHANGING_PRICES))
    pace = rng.choice([0.4, 20, 240, 301, 900])
    times = clock(source, lambda: rng.choice([0.0, pace, pace * rng.uniform(0.5, 1.5)]))
    hashes = [draw_hash(rng) for _ in range(rng.choice([1, 1, 2, 4]))]
    shortest = rng.choice([900, 1_023, 1_024, 2_100, 4_096])
    return [
        source.call(
            next(times),
            shortest + rng.randint(0, 3_000),
            rng.randint(300, 2_500),
            prefix_hash=rng.choice(hashes),
            cached_tokens=rng.choice([None, 0, 0, 0, 512]),
        )
        for _ in range(rng.choice([2, 3, 4, 8, 25]))
    ]


def unhashed_prefix(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, CLAUDES, routed=rng.random() < 0.9)
    pace = rng.choice([2, 30, 200, 500])
    times = clock(source, lambda: pace * rng.uniform(0.2, 1.6))
    typical = rng.choice([1_900, 2_048, 2_300, 6_000, 9_000, 20_000])
    common_hash = rng.choice([None, None, None, draw_hash(rng)])
    records = [
        source.call(
            next(times),
            int(typical * rng.uniform(1.0, 1.4)),
            rng.randint(400, 3_000),
            prefix_hash=common_hash,
        )
        for _ in range(rng.choice([18, 20, 21, 40]))
    ]
    if rng.random() < 0.5:
        records.append(source.call(next(times), rng.randint(0, 1_100), 900))
    return records


def unread_writes(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, (*CLAUDES, ("openai", "gpt-5.6-sol")))
    times = clock(source, lambda: rng.uniform(100, 2_000))
    read_share = rng.choice([0.0, 0.1, 0.22, 0.5])
    records = []
    for _ in range(rng.choice([1, 5, 15, 40])):
        prompt = rng.randint(1_500, 9_000)
        part = rng.randint(1_024, prompt)
        is_read = rng.random() < read_share
        counts = {"cached_tokens": part} if is_read else {"cache_write_tokens": part}
        records.append(source.call(next(times), prompt, rng.randint(300, 900), **counts))
    return records


def bloated_context(rng: Random, start: datetime) -> list[UsageRecord]:
    """Comparable work on several routes, one of them with far longer prompts."""
    low = 1 << rng.choice([0, 4, 9, 12, 14])
    norm = rng.choice([200, 1_000, 4_000])
    records = []
    for _ in range(rng.choice([1, 3, 4])):
        usual = draw_source(rng, start, SMALL)
        times = clock(usual, lambda: rng.uniform(60, 5_000))
        records += [
            usual.call(next(times), norm + rng.randint(-50, 50), rng.randint(low, 2 * low - 1))
            for _ in range(rng.choice([10, 14]))
        ]
    heavy = draw_source(rng, start, PRICED)
    times = clock(heavy, lambda: rng.uniform(60, 5_000))
    multiple = rng.choice([2.5, 3.0, 3.1, 12])
    for _ in range(rng.choice([9, 10, 14, 20])):
        prompt = int(norm * multiple * rng.uniform(0.9, 1.2))
        cached = rng.choice([None, 0, prompt // 2])
        completion = rng.randint(low, 2 * low - 1)
        records.append(heavy.call(next(times), prompt, completion, cached_tokens=cached))
    return records


def overfull(rng: Random, start: datetime) -> list[UsageRecord]:
    """More cached and written tokens than the prompt has, as some logs count them."""
    source = draw_source(rng, start, (*FLAGSHIPS, *CLAUDES))
    times = clock(source, lambda: rng.uniform(1, 900))
    return [
        source.call(
            next(times),
            rng.choice([0, 10, 1_500]),
            rng.randint(0, 500),
            cached_tokens=rng.choice([None, 900, 1_600]),
            cache_write_tokens=rng.choice([None, 900, 1_600]),
        )
        for _ in range(rng.choice([1, 6, 20]))
    ]


def long_context(rng: Random, start: datetime) -> list[UsageRecord]:
    """Prompts around the lengths where providers charge another rate."""
    models = (
        ("openai", "gpt-5.4"),
        ("openai", "gpt-5.6-sol"),
        ("google", "gemini-2.5-pro"),
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-6"),
    )
    source = draw_source(rng, start, models)
    times = clock(source, lambda: rng.uniform(1, 400))
    edges = [128_000, 200_000, 272_000]
    common = rng.choice([None, draw_hash(rng)])
    return [
        source.call(
            next(times),
            rng.choice(edges) + rng.choice([-1, 0, 1, 5_000]),
            rng.randint(1, 900),
            prefix_hash=common,
            cached_tokens=rng.choice([None, 0, 100_000]),
        )
        for _ in range(rng.choice([3, 10, 24]))
    ]
