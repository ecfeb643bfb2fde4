"""For every threshold, traffic whose statistic is a given value: on the limit, under it, over it.

Each case says how many calls its kind of finding must flag, worked out by hand, when the traffic
moves and the limit stands still, and when the limit moves and the traffic stands still.
"""

from collections.abc import Callable
from dataclasses import dataclass

from detectors.contract import UsageRecord
from tests.detectors.reference.builders import (
    HASH,
    answers,
    bloat,
    capped,
    hashed,
    interleaved,
    loop,
    one_prompt_of_many,
    series,
    unhashed,
)

Counts = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Boundary:
    """One threshold: `build(value)` makes traffic whose statistic is `value`.

    `by_traffic` are the flagged calls one `step` under, on and over the default; `by_limit` those
    of the traffic that lies on the default, with the limit one step lower, the same and higher.
    """

    build: Callable[[float], list[UsageRecord]]
    finding: tuple[str, str]
    by_limit: Counts
    by_traffic: Counts | None = None
    step: float = 1
    confidence: str | None = None


def _share(part: float, whole: int) -> int:
    return round(part * whole)


OVERKILL = ("d1_model_overkill", "")
UNCACHED = ("d2_missed_caching", "uncached_prefix")
UNHASHED = ("d2_missed_caching", "unhashed_prefix")
BLOAT = ("d3_context_bloat", "")
SAME_PROMPT = ("d4_duplicate_calls", "same_prompt")
SAME_SHAPE = ("d4_duplicate_calls", "same_shape")
TRUNCATED = ("d5_max_tokens_misfit", "truncated")
OVERSIZED = ("d5_max_tokens_misfit", "oversized_cap")
LOOP = ("d6_chatty_loop", "")

PACE = 10.5  # seconds between a loop's calls: not whole, so that no rounding is suspected

BOUNDARIES = {
    "d1_min_calls": Boundary(
        lambda value: answers([50] * int(value)), OVERKILL, (5, 5, 0), (0, 5, 6)
    ),
    "d1_median_completion_tokens": Boundary(
        lambda value: answers([int(value)] * 5), OVERKILL, (0, 5, 5), (5, 5, 0)
    ),
    # Of 11 answers the tenth is the 90th percentile; an answer over 400 is not flagged itself.
    "d1_p90_completion_tokens": Boundary(
        lambda value: answers([50] * 9 + [int(value)] * 2), OVERKILL, (0, 11, 11), (11, 11, 0)
    ),
    "d1_max_completion_tokens": Boundary(
        lambda value: answers([50] * 9 + [int(value)]), OVERKILL, (9, 10, 10), (10, 10, 9)
    ),
    # The minimum of the model, 1,024, must not be over the proven prefix.
    "d2_prefix_tokens": Boundary(lambda _: hashed(3, 60), UNCACHED, (0, 3, 3)),
    "d2_min_hash_calls": Boundary(
        lambda value: hashed(int(value), 60), UNCACHED, (3, 3, 0), (0, 3, 4)
    ),
    # Without a read nothing is saved, and a write costs nothing more at this provider.
    "d2_cache_seconds": Boundary(lambda value: hashed(3, value), UNCACHED, (0, 3, 3), (3, 3, 0)),
    "d2_unhashed_min_calls": Boundary(
        lambda value: unhashed([9_000] * int(value)), UNHASHED, (20, 20, 0), (0, 20, 21)
    ),
    # Of 21 prompts the third is the 10th percentile; a lower share mixes in the second.
    "d2_unhashed_quantile": Boundary(
        lambda _: unhashed([1_100] * 2 + [2_048] * 19), UNHASHED, (0, 21, 21), step=0.01
    ),
    "d2_unhashed_prompt_share": Boundary(
        lambda value: unhashed([round(4_096 * value)] * 20),
        UNHASHED,
        (0, 20, 20),
        (0, 20, 20),
        step=1 / 4_096,
    ),
    "d3_min_calls": Boundary(
        lambda value: bloat([10_000] * int(value), 30), BLOAT, (10, 10, 0), (0, 10, 11)
    ),
    "d3_p90_multiple": Boundary(
        lambda value: bloat([round(1_000 * value)] * 10, 30),
        BLOAT,
        (10, 0, 0),
        (0, 0, 10),
        step=0.001,
    ),
    "d3_bin_min_calls": Boundary(
        lambda value: bloat([10_000] * 10, int(value) - 10), BLOAT, (10, 10, 0), (0, 10, 10)
    ),
    "d3_bin_min_routes": Boundary(
        lambda value: bloat([10_000] * 10, 30, ("a", "b", "c")[: int(value)]),
        BLOAT,
        (10, 10, 0),
        (0, 10, 10),
    ),
    # 100 calls in the bin; ten of the group's are long, the others as long as the norm.
    "d3_max_bin_share": Boundary(
        lambda value: bloat(
            [1_000] * (_share(value, 100) - 10) + [10_000] * 10, 100 - _share(value, 100)
        ),
        BLOAT,
        (0, 10, 10),
        (10, 10, 0),
        step=0.01,
    ),
    "d4_whole_prompt_tokens": Boundary(
        lambda value: series([5.0] * 2, int(value), 5, prefix_hash=HASH),
        SAME_PROMPT,
        (0, 2, 2),
        (2, 2, 0),
    ),
    "d4_same_prompt_share": Boundary(
        lambda value: one_prompt_of_many(_share(value, 100)),
        SAME_PROMPT,
        (94, 94, 0),
        (0, 94, 95),
        step=0.01,
    ),
    "d4_same_shape_min_completion_tokens": Boundary(
        lambda value: series([5.0] * 2, 500, int(value)), SAME_SHAPE, (2, 2, 0), (0, 2, 2)
    ),
    "d4_same_shape_min_share": Boundary(
        lambda value: interleaved(_share(value, 100)),
        SAME_SHAPE,
        (49, 49, 0),
        (0, 49, 50),
        step=0.01,
    ),
    "d4_gap_seconds": Boundary(
        lambda value: series([value] * 2), SAME_SHAPE, (0, 2, 2), (2, 2, 0), step=0.001
    ),
    "d4_min_burst_calls": Boundary(
        lambda value: series([5.0] * (int(value) - 1)), SAME_SHAPE, (2, 2, 0), (0, 2, 3)
    ),
    "d5_truncated_above_tokens": Boundary(
        lambda value: capped(int(value), [int(value)] * 6), TRUNCATED, (6, 0, 0), (0, 0, 6)
    ),
    "d5_truncated_min_calls": Boundary(
        lambda value: capped(200, [200] * int(value) + [10] * 5),
        TRUNCATED,
        (5, 5, 0),
        (0, 5, 6),
    ),
    "d5_truncated_min_share": Boundary(
        lambda value: capped(200, [200] * _share(value, 500) + [10] * (500 - _share(value, 500))),
        TRUNCATED,
        (10, 10, 0),
        (0, 10, 11),
        step=0.002,
    ),
    "d5_oversized_min_calls": Boundary(
        lambda value: capped(1_000, [100] * int(value)), OVERSIZED, (20, 20, 0), (0, 20, 21)
    ),
    "d5_oversized_multiple": Boundary(
        lambda value: capped(round(100 * value), [100] * 20),
        OVERSIZED,
        (20, 20, 0),
        (0, 20, 20),
        step=0.01,
    ),
    # Of 21 answers the twentieth is the 95th percentile; a higher share mixes in the longest.
    "d5_oversized_quantile": Boundary(
        lambda _: capped(1_000, [100] * 20 + [200]), OVERSIZED, (21, 21, 0), step=0.01
    ),
    # Twelve calls as one session: the numbers 0, 5 and 10 stand alone. Two of six are too short.
    "d6_session_gap_seconds": Boundary(
        lambda value: loop([PACE] * 5 + [value] + [PACE] * 5), LOOP, (0, 9, 9), (9, 9, 0)
    ),
    "d6_min_calls": Boundary(
        lambda value: loop([PACE] * (int(value) - 1)), LOOP, (8, 8, 0), (0, 8, 8)
    ),
    # Twelve gaps of 10.5 s and eight long ones; the last long one makes up the given length.
    "d6_max_session_seconds": Boundary(
        lambda value: loop([PACE] * 12 + [885.0] * 7 + [value - 12 * PACE - 7 * 885]),
        LOOP,
        (0, 16, 16),
        (16, 16, 0),
    ),
    "d6_short_completion_tokens": Boundary(
        lambda value: loop([PACE] * 9, [int(value)] * 10), LOOP, (0, 8, 8), (8, 8, 0)
    ),
    "d6_min_short_share": Boundary(
        lambda value: loop(
            [PACE] * 99, [10] * _share(value, 100) + [500] * (100 - _share(value, 100))
        ),
        LOOP,
        (80, 80, 0),
        (0, 80, 80),
        step=0.01,
    ),
    "d6_max_median_gap_seconds": Boundary(
        lambda value: loop([value] * 9), LOOP, (0, 8, 8), (8, 8, 0), step=0.001
    ),
    # Two of 20 gaps are near the limit, which is more than 5%.
    "d6_overlap_gap_seconds": Boundary(
        lambda value: loop([value] * 2 + [PACE] * 18), LOOP, (16, 16, 0), (0, 16, 16), step=0.001
    ),
    "d6_max_overlap_share": Boundary(
        lambda value: loop([0.1] * _share(value, 100) + [PACE] * (100 - _share(value, 100))),
        LOOP,
        (0, 80, 80),
        (80, 80, 0),
        step=0.01,
    ),
    "d6_max_zero_gap_share": Boundary(
        lambda value: loop([0.0] * _share(value, 100) + [10.0] * (100 - _share(value, 100))),
        LOOP,
        (0, 80, 80),
        (80, 80, 0),
        step=0.01,
    ),
    "d6_calls_per_request": Boundary(lambda _: loop([PACE] * 9), LOOP, (7, 8, 8)),
    "d6_min_hash_share": Boundary(
        lambda value: loop([PACE] * 99, hashed_calls=_share(value, 100)),
        LOOP,
        (80, 80, 0),
        (0, 80, 80),
        step=0.01,
        confidence="ESTIMATED",
    ),
}
