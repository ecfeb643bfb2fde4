"""For every threshold, traffic whose statistic is a given value: on the limit, under it, over it.

Each case says how many calls its kind of finding must flag, worked out by hand, when the traffic
lies one step under the default, on it and over it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from detectors.contract import UsageRecord
from tests.detectors.reference.builders import (
    HASH,
    answers,
    asked_again,
    bloat,
    bursts,
    capped,
    hashed,
    interleaved,
    loop,
    one_prompt_of_many,
    rewritten,
    series,
    unhashed,
)

Counts = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Boundary:
    """One limit: `build(value)` makes traffic whose statistic is `value`."""

    limit: float
    build: Callable[[float], list[UsageRecord]]
    kind: str
    flagged: Counts
    step: float = 1
    confidence: str | None = None


def _share(part: float, whole: int) -> int:
    return round(part * whole)


def _outgrown(calls: int) -> list[int]:
    """Return the prompts of a route that are normal but for four."""
    return [1_000] * (calls - 4) + [10_000] * 4


PACE = 10.5  # seconds between a loop's calls: not whole, so that no rounding is suspected

BOUNDARIES = {
    "d1 calls": Boundary(5, lambda v: answers([50] * int(v)), "short_answers", (0, 5, 6)),
    "d1 median": Boundary(150, lambda v: answers([int(v)] * 5), "short_answers", (5, 5, 0)),
    # Of 11 answers the tenth is the 90th percentile; an answer over 400 is not flagged itself.
    "d1 90th percentile": Boundary(
        400, lambda v: answers([50] * 9 + [int(v)] * 2), "short_answers", (11, 11, 0)
    ),
    "d1 longest answer": Boundary(
        400, lambda v: answers([50] * 9 + [int(v)]), "short_answers", (10, 10, 9)
    ),
    "d1 legacy calls": Boundary(
        5, lambda v: answers([900] * int(v), model="gpt-4-0613"), "legacy_model", (0, 5, 6)
    ),
    "d2 calls of a hash": Boundary(2, lambda v: hashed(int(v), 60), "uncached_prefix", (0, 2, 3)),
    "d2 cache seconds": Boundary(300, lambda v: hashed(3, v), "uncached_prefix", (3, 3, 0)),
    "d2 minimum": Boundary(1_024, lambda v: hashed(3, 60, int(v)), "uncached_prefix", (0, 3, 3)),
    "d2 unhashed calls": Boundary(
        20, lambda v: unhashed([9_000] * int(v)), "unhashed_prefix", (0, 20, 21)
    ),
    "d2 unhashed length": Boundary(
        2_048, lambda v: unhashed([int(v)] * 20), "unhashed_prefix", (0, 20, 20)
    ),
    # Of 21 prompts the third is the 10th percentile.
    "d2 unhashed percentile": Boundary(
        2_048, lambda v: unhashed([1_100] * 2 + [int(v)] * 19), "unhashed_prefix", (0, 21, 21)
    ),
    "d2 hour run": Boundary(
        3_600, lambda v: rewritten(v, prefix_hash=HASH), "short_lifetime", (2, 2, 0), 0.001
    ),
    "d2 expired": Boundary(
        300, lambda v: rewritten(v, prefix_hash=HASH), "short_lifetime", (0, 0, 2), 0.001
    ),
    "d2 rewrite, most": Boundary(
        2_048, lambda v: rewritten(420.0, 900 + int(v)), "short_lifetime", (2, 2, 0)
    ),
    "d2 rewrite, least": Boundary(
        0, lambda v: rewritten(420.0, int(v)), "short_lifetime", (0, 2, 2)
    ),
    "d3 calls": Boundary(10, lambda v: bloat(_outgrown(int(v)), 40), "outgrown", (0, 4, 4)),
    "d3 multiple": Boundary(
        3, lambda v: bloat([1_000] * 6 + [round(1_000 * v)] * 4, 40), "outgrown", (0, 0, 4), 0.001
    ),
    "d3 median": Boundary(
        1_000, lambda v: bloat([int(v)] * 6 + [10_000] * 4, 40), "outgrown", (4, 4, 0)
    ),
    "d3 calls of a bin": Boundary(
        30, lambda v: bloat(_outgrown(10), int(v) - 10), "outgrown", (0, 4, 4)
    ),
    "d3 routes of a bin": Boundary(
        2, lambda v: bloat(_outgrown(10), 40, ("a", "b", "c")[: int(v)]), "outgrown", (0, 4, 4)
    ),
    # 100 calls in the bin; ten of the group's are long, the others as long as the norm.
    "d3 share of a bin": Boundary(
        0.5,
        lambda v: bloat([1_000] * (_share(v, 100) - 10) + [10_000] * 10, 100 - _share(v, 100)),
        "outgrown",
        (10, 10, 0),
        0.01,
    ),
    "d4 whole prompt": Boundary(
        800, lambda v: series([5.0] * 2, int(v), 5, prefix_hash=HASH), "same_prompt", (2, 2, 0)
    ),
    "d4 share of a prompt": Boundary(
        0.95, lambda v: one_prompt_of_many(_share(v, 100)), "same_prompt", (0, 94, 95), 0.01
    ),
    "d4 equal answers": Boundary(
        0.5,
        lambda v: bursts([11], [5] * (_share(v, 10) + 1) + [6] * (10 - _share(v, 10))),
        "same_prompt",
        (0, 10, 10),
        0.1,
        "VERIFIED",
    ),
    "d4 sampled bursts": Boundary(
        3,
        lambda v: bursts([4] * int(v), [5, 6, 7, 8]),
        "same_prompt",
        (0, 9, 12),
        confidence="INFORMATIONAL",
    ),
    "d4 bursts of one size": Boundary(
        0.9,
        lambda v: bursts([3] * _share(v, 10) + [4] * (10 - _share(v, 10)), [5, 6, 7, 8]),
        "same_prompt",
        (0, 21, 20),
        0.1,
        "INFORMATIONAL",
    ),
    "d4 shortest answer": Boundary(
        20, lambda v: series([5.0] * 2, 500, int(v)), "same_shape", (0, 2, 2)
    ),
    "d4 share of a burst": Boundary(
        0.5, lambda v: interleaved(_share(v, 100)), "same_shape", (0, 49, 50), 0.01
    ),
    "d4 gap": Boundary(30, lambda v: series([v] * 2), "same_shape", (2, 2, 0), 0.001),
    "d4 calls of a burst": Boundary(
        3, lambda v: series([5.0] * (int(v) - 1)), "same_shape", (0, 2, 3)
    ),
    "d5 shortest limit": Boundary(
        16, lambda v: capped(int(v), [int(v)] * 6), "truncated", (0, 0, 6)
    ),
    "d5 cut calls": Boundary(
        5, lambda v: capped(200, [200] * int(v) + [10] * 5), "truncated", (0, 5, 6)
    ),
    "d5 cut share": Boundary(
        0.02,
        lambda v: capped(200, [200] * _share(v, 500) + [10] * (500 - _share(v, 500))),
        "truncated",
        (0, 10, 11),
        0.002,
    ),
    "d5 asked again within": Boundary(
        120, lambda v: asked_again(10, 5, v), "truncated", (10, 10, 0), 0.001, "ESTIMATED"
    ),
    "d5 asked again with, most": Boundary(
        512,
        lambda v: asked_again(10, 5, more=200 + int(v)),
        "truncated",
        (10, 10, 0),
        confidence="ESTIMATED",
    ),
    "d5 asked again with, least": Boundary(
        0,
        lambda v: asked_again(10, 5, more=int(v)),
        "truncated",
        (0, 10, 10),
        confidence="ESTIMATED",
    ),
    "d5 asked again, share": Boundary(
        0.2, lambda v: asked_again(10, _share(v, 10)), "truncated", (0, 10, 10), 0.1, "ESTIMATED"
    ),
    "d5 oversized calls": Boundary(
        20, lambda v: capped(1_000, [100] * int(v)), "oversized_cap", (0, 20, 21)
    ),
    "d5 oversized multiple": Boundary(
        10, lambda v: capped(round(100 * v), [100] * 20), "oversized_cap", (0, 20, 20), 0.01
    ),
    # Twelve calls as one session: the numbers 0, 5 and 10 stand alone. Two of six are too short.
    "d6 gap of a session": Boundary(
        900, lambda v: loop([PACE] * 5 + [v] + [PACE] * 5), "hashed", (9, 9, 0)
    ),
    "d6 calls": Boundary(10, lambda v: loop([PACE] * (int(v) - 1)), "hashed", (0, 8, 8)),
    # Twelve gaps of 10.5 s and eight long ones; the last long one makes up the given length.
    "d6 length of a session": Boundary(
        7_200,
        lambda v: loop([PACE] * 12 + [885.0] * 7 + [v - 12 * PACE - 7 * 885]),
        "hashed",
        (16, 16, 0),
    ),
    "d6 short answer": Boundary(
        100, lambda v: loop([PACE] * 9, [int(v)] * 10), "hashed", (8, 8, 0)
    ),
    "d6 short share": Boundary(
        0.8,
        lambda v: loop([PACE] * 99, [10] * _share(v, 100) + [500] * (100 - _share(v, 100))),
        "hashed",
        (0, 80, 80),
        0.01,
    ),
    "d6 median gap": Boundary(60, lambda v: loop([v] * 9), "hashed", (8, 8, 0), 0.001),
    # Two of 20 gaps are near the limit, which is more than 5%.
    "d6 overlap": Boundary(
        0.25, lambda v: loop([v] * 2 + [PACE] * 18), "hashed", (0, 16, 16), 0.001
    ),
    "d6 overlap share": Boundary(
        0.05,
        lambda v: loop([0.1] * _share(v, 100) + [PACE] * (100 - _share(v, 100))),
        "hashed",
        (80, 80, 0),
        0.01,
    ),
    "d6 share of equal seconds": Boundary(
        0.3,
        lambda v: loop([0.0] * _share(v, 100) + [10.0] * (100 - _share(v, 100))),
        "hashed",
        (80, 80, 0),
        0.01,
    ),
    "d6 early by": Boundary(
        0.25, lambda v: loop([PACE] * 9, latency_ms=(PACE + v) * 1_000), "hashed", (8, 8, 0), 0.001
    ),
    "d6 share with a latency": Boundary(
        0.9,
        lambda v: loop([PACE] * 9, latency_ms=70_000, timed_calls=_share(v, 10)),
        "hashed",
        (8, 0, 0),
        0.1,
    ),
    "d6 share of a hash": Boundary(
        0.5, lambda v: loop([PACE] * 99, hashed_calls=_share(v, 100)), "hashed", (0, 80, 80), 0.01
    ),
}
