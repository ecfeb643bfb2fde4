"""Traffic around the limits of d6: loops of short calls, alone and several at once."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

from detectors.contract import UsageRecord
from tests.detectors.reference.cache_scenarios import draw_ladder
from tests.detectors.reference.sources import PRICED, Source, clock, draw_hash, draw_source


def loop(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED, routed=rng.random() < 0.9)
    times = _times(rng, source)
    hash_share = rng.choice([0.0, 0.45, 0.5, 0.6, 1.0])
    long_share = rng.choice([0.0, 0.0, 0.1, 0.2, 0.25])
    timed_share = rng.choice([0.0, 0.0, 0.85, 0.9, 1.0])
    latency = rng.choice([100.0, 900.0, 4_000.0, 4_300.0, 70_000.0])
    choices: list[list[str | None]] = [[None], [None], ["one"], ["one", "two"], [None, "one"]]
    names = rng.choice(choices)
    same = draw_hash(rng)
    records = []
    for session in range(rng.choice([1, 1, 2, 3])):
        for _ in range(rng.choice([9, 10, 11, 16, 40])):
            is_long = rng.random() < long_share
            records.append(
                source.call(
                    next(times) + timedelta(minutes=40 * session),
                    rng.randint(801, 2_500),
                    rng.choice([101, 600]) if is_long else rng.randint(1, 100),
                    prefix_hash=same if rng.random() < hash_share else None,
                    latency_ms=latency if rng.random() < timed_share else None,
                    session_id=rng.choice(names),
                )
            )
    return records


def laddered_loop(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return loops whose instructions have a length that hashes by level show in part."""
    source = draw_source(rng, start, PRICED, routed=True)
    times = clock(source, lambda: rng.uniform(2, 6))
    instructions, own = rng.choice([3_000, 4_096, 14_000, 60_000]), draw_hash(rng)
    choices: list[list[str | None]] = [[None], ["one", "two"]]
    names = rng.choice(choices)
    lacking = rng.choice([0.0, 0.0, 0.2, 0.6])
    records = []
    for _ in range(rng.choice([10, 25, 40])):
        length = instructions + rng.choice([0, 100, 2_000, 9_000])
        hashes = draw_ladder(rng.choice(["levels"] * 4 + ["three"]), own, rng, instructions, length)
        fields = {} if rng.random() < lacking else hashes
        prompt, answer = length // 4 + rng.randint(-9, 9), rng.randint(1, 100)
        session = rng.choice(names)
        records.append(source.call(next(times), prompt, answer, session_id=session, **fields))
    return records


def _times(rng: Random, source: Source) -> Iterator[datetime]:
    """Return the times of a loop, some of whose calls overlap."""
    pace = rng.choice([1.0, 4.0, 4.0, 20.0, 55.0, 65.0])
    is_rounded = rng.random() < 0.4
    overlap_share = rng.choice([0.0, 0.0, 0.0, 0.03, 0.08, 0.28, 0.35])

    def gap() -> float:
        if rng.random() < overlap_share:
            return 0.0 if is_rounded else rng.choice([0.0, 0.1, 0.249, 0.25])
        seconds = pace * rng.uniform(0.8, 1.3)
        return float(max(round(seconds), 1)) if is_rounded else seconds

    return clock(source, gap)
