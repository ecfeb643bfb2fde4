"""Traffic around the limits of d1 and d3, and calls that are hard to price.

A drawn case may lie on either side of a limit; the reference and the rules must merely agree.
"""

from datetime import datetime
from random import Random

from detectors.contract import UsageRecord
from tests.detectors.reference.sources import (
    CLAUDES,
    FLAGSHIPS,
    HOSTED,
    LEGACY,
    PRICED,
    SMALL,
    clock,
    draw_hash,
    draw_source,
)


def short_answers(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, (*FLAGSHIPS, *HOSTED))
    times = clock(source, lambda: rng.uniform(40, 4_000))
    usual = rng.choice([20, 100, 140, 150, 160, 210, 225, 230])
    spread = rng.choice([5, 40, 300])
    longest = rng.choice([900, 3_000, 250_000])
    thought = rng.choice([0, 0, 500])
    is_cached = rng.random() < 0.3
    records = []
    for _ in range(rng.choice([4, 5, 6, 12, 30])):
        prompt = rng.choice([0, 40, longest, longest, longest])
        cached = rng.randint(0, prompt) if is_cached else None
        completion = max(usual + rng.randint(-20, spread), 0)
        records.append(
            source.call(
                next(times),
                prompt,
                completion + thought,
                cached_tokens=cached,
                reasoning_tokens=thought,
            )
        )
    return records


def legacy_models(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return calls of models that were replaced, some too long for what replaced them."""
    source = draw_source(rng, start, LEGACY)
    times = clock(source, lambda: rng.uniform(40, 4_000))
    longest = rng.choice([4_000, 190_000, 1_050_000])
    return [
        source.call(
            next(times),
            rng.randint(0, longest),
            rng.randint(0, 3_000),
            service_tier=rng.choice([None, "standard", "batch"]),
        )
        for _ in range(rng.choice([4, 5, 12, 30]))
    ]


def long_past_windows(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return prompts around the window of the cheaper model."""
    models = (("anthropic", "claude-sonnet-4-6"), ("openai", "gpt-5.4"), ("openai", "gpt-5.1"))
    source = draw_source(rng, start, models)
    times = clock(source, lambda: rng.uniform(40, 4_000))
    edge = rng.choice([128_000, 200_000, 400_000])
    return [
        source.call(next(times), edge - 100 + rng.choice([-1, 0, 1, 9_000]), 100)
        for _ in range(rng.choice([5, 9, 20]))
    ]


def fees(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return calls with searches, sound or pictures, and thoughts priced apart."""
    models = (
        ("openai", "gpt-4o"),
        ("anthropic", "claude-sonnet-4-5"),
        ("google", "gemini-2.5-flash"),
        ("perplexity", "sonar-deep-research"),
    )
    source = draw_source(rng, start, models)
    times = clock(source, lambda: rng.uniform(40, 4_000))
    return [
        source.call(
            next(times),
            3_000,
            120,
            web_searches=rng.choice([None, 0, 1, 7]),
            audio_prompt_tokens=rng.choice([None, 0, 500]),
            reasoning_tokens=rng.choice([None, 0, 100]),
        )
        for _ in range(rng.choice([2, 5, 12]))
    ]


def spree(rng: Random, start: datetime) -> list[UsageRecord]:
    """A few calls that cost as much as all others together."""
    source = draw_source(rng, start, (("openai", "gpt-5.5-pro"), ("anthropic", "claude-opus-4-1")))
    times = clock(source, lambda: rng.uniform(40, 600))
    return [
        source.call(next(times), rng.randint(150_000, 260_000), rng.choice([90, 140, 160]))
        for _ in range(rng.choice([1, 6, 14]))
    ]


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
    normal_share = rng.choice([0.0, 0.0, 0.5, 0.7, 0.8])
    for _ in range(rng.choice([9, 10, 14, 20, 30])):
        is_normal = rng.random() < normal_share
        prompt = norm - 60 if is_normal else int(norm * multiple * rng.uniform(0.9, 1.2))
        cached = rng.choice([None, 0, prompt // 2])
        completion = rng.randint(low, 2 * low - 1)
        records.append(heavy.call(next(times), prompt, completion, cached_tokens=cached))
    return records


def overfull(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return more cached and written tokens than the prompt has, as some logs count them."""
    source = draw_source(rng, start, (*FLAGSHIPS, *CLAUDES))
    times = clock(source, lambda: rng.uniform(1, 900))
    records = []
    for _ in range(rng.choice([1, 6, 20])):
        written = rng.choice([None, 900, 1_600, 250_000])
        records.append(
            source.call(
                next(times),
                rng.choice([0, 10, 1_500]),
                rng.randint(0, 500),
                cached_tokens=rng.choice([None, 900, 1_600]),
                cache_write_tokens=written,
                cache_write_1h_tokens=rng.choice([None, 0, 400, 900]) if written else None,
            )
        )
    return records


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
