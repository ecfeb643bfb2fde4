"""Traffic around the limits of d4, d5 and d6, and calls that no detector should mind.

A drawn case may lie on either side of a limit; the reference and the rules must merely agree.
"""

from datetime import datetime, timedelta
from random import Random

from detectors.contract import UsageRecord
from tests.detectors.reference.sources import PRICED, SMALL, UNPRICED, clock, draw_hash, draw_source


def repeated_prompt(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED)
    times = clock(source, lambda: rng.choice([0.0, 0.0, 1.0, 1.0, 5.0, 12.5, 29.9, 30.0, 31.0]))
    prompt = rng.choice([50, 120, 799, 800, 801])
    same = draw_hash(rng)
    records = [
        source.call(
            next(times),
            prompt,
            rng.choice([5, 5, 30, 700]),
            prefix_hash=same,
            cached_tokens=rng.choice([None, None, 10]),
        )
        for _ in range(rng.choice([2, 3, 4, 12, 19, 38]))
    ]
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        records.append(source.call(next(times), prompt + 1, 50, prefix_hash=same))
    return records


def repeated_shape(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED)
    times = clock(source, lambda: rng.choice([0.5, 2.0, 7.0, 14.0, 30.0, 45.0]))
    prompt, completion = rng.choice([300, 2_000, 9_000, 180_000]), rng.choice([19, 20, 21, 350])
    same = rng.choice([None, draw_hash(rng)])
    foreign_share = rng.choice([0.0, 0.0, 0.3, 0.5, 0.7])
    records = []
    for _ in range(rng.choice([2, 3, 4, 8, 16])):
        while rng.random() < foreign_share:
            records.append(source.call(next(times), rng.randint(200, 9_000), rng.randint(1, 900)))
        records.append(source.call(next(times), prompt, completion, prefix_hash=same))
    return records


def capped_answers(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED)
    times = clock(source, lambda: rng.uniform(10, 3_000))
    cap = rng.choice([1, 16, 17, 256, 1_024])
    cut = rng.choice([4, 5, 6, 10])
    whole = rng.choice([0, 10, 49, 50, 245, 250]) if rng.random() < 0.4 else rng.randrange(20)
    completions = [cap + rng.choice([0, 0, 3]) for _ in range(cut)]
    completions += [rng.randrange(cap) for _ in range(whole)]
    rng.shuffle(completions)
    records = [
        source.call(next(times), rng.randint(20, 4_000), completion, declared_max_tokens=cap)
        for completion in completions
    ]
    records += [source.call(next(times), 300, 600) for _ in range(rng.randrange(5))]
    return records


def oversized_caps(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED)
    times = clock(source, lambda: rng.uniform(10, 3_000))
    longest = rng.choice([10, 100, 400])
    cap = longest * rng.choice([9, 10, 11, 40])
    return [
        source.call(
            next(times),
            rng.randint(20, 4_000),
            rng.choice([longest, longest - 1, rng.randint(1, longest)]),
            declared_max_tokens=rng.choice([cap, cap, cap, 64, None]),
        )
        for _ in range(rng.choice([19, 20, 30, 45]))
    ]


def sampled_answers(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return bursts of one prompt whose answers differ, most of them of one size."""
    source = draw_source(rng, start, PRICED)
    same, size = draw_hash(rng), rng.choice([3, 4, 8])
    odd_share = rng.choice([0.0, 0.0, 0.1, 0.3])
    equal_share = rng.choice([0.0, 0.4, 0.5, 0.6])
    records = []
    for number in range(rng.choice([1, 2, 3, 10, 11])):
        first = start + timedelta(seconds=600 * number)
        for place in range(size + (rng.random() < odd_share)):
            completion = 40 if place == 0 or rng.random() < equal_share else rng.randint(41, 700)
            ts = first + timedelta(seconds=place)
            records.append(source.call(ts, 600, completion, prefix_hash=same))
    return records


def asked_again(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return cut answers of which some are asked for again, with a longer prompt or the same."""
    source = draw_source(rng, start, PRICED)
    choices: list[list[str | None]] = [[None], [draw_hash(rng)], [None, draw_hash(rng)]]
    hashes = rng.choice(choices)
    cut_share = rng.choice([0.02, 0.3, 0.8])
    again_share = rng.choice([0.15, 0.2, 0.25, 0.6, 1.0])
    other_share = rng.choice([0.0, 0.0, 0.1, 0.4])
    pace = rng.choice([90, 500, 4_000])
    now, records = start, []
    for _ in range(rng.choice([6, 20, 60])):
        is_cut = rng.random() < cut_share
        prompt, known = rng.randint(300, 4_000), rng.choice(hashes)
        completion = 256 if is_cut else rng.randint(1, 255)
        now += timedelta(seconds=pace * rng.uniform(0.5, 1.5))
        records.append(
            source.call(now, prompt, completion, declared_max_tokens=256, prefix_hash=known)
        )
        if rng.random() < (again_share if is_cut else other_share):
            now += timedelta(seconds=rng.choice([0, 5, 119.5, 120, 120.5]))
            longer = rng.choice([0, completion // 2, completion, completion + 512, -1, 9_000])
            cap = rng.choice([None, 256, 4_096])
            records.append(
                source.call(now, prompt + longer, 300, declared_max_tokens=cap, prefix_hash=known)
            )
    return records


def clean(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, SMALL)
    times = clock(source, lambda: rng.uniform(30, 6_000))
    return [
        source.call(
            next(times),
            rng.randint(800, 3_000),
            rng.randint(500, 2_000),
            cached_tokens=rng.randint(0, 800),
            latency_ms=rng.uniform(100, 9_000),
        )
        for _ in range(rng.choice([1, 15, 40]))
    ]


def unpriced(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start - timedelta(days=rng.choice([0, 0, 3])), UNPRICED)
    times = clock(source, lambda: rng.choice([1.0, 5.0, 4_000.0]))
    return [
        source.call(next(times), rng.choice([100, 90_000]), rng.choice([30, 30, 90]))
        for _ in range(rng.choice([1, 12, 40]))
    ]


def crowd(rng: Random, start: datetime) -> list[UsageRecord]:
    """Few values, few times: ties of every kind."""
    source = draw_source(rng, start, PRICED)
    hashes = [None, draw_hash(rng)]
    return [
        source.call(
            start + timedelta(seconds=rng.choice([0, 0, 1, 2, 30, 60, 330, 1_300])),
            rng.choice([0, 1, 700, 1_024]),
            rng.choice([0, 1, 20, 100]),
            prefix_hash=rng.choice(hashes),
            request_id=rng.choice([None, "", "a", "b", "é", "Z"]),
            cached_tokens=rng.choice([None, 0, 1]),
            declared_max_tokens=rng.choice([None, 0, 20]),
        )
        for _ in range(rng.choice([5, 20, 40]))
    ]
