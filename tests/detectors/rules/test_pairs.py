"""The call that each call shares the beginning of its prompt with."""

import random

import polars as pl

from detectors import Thresholds
from detectors.rules.caching.savings import pair
from tests.cases import each_case

ROUTES, TEXTS = 3, 4


def _equal_levels(rng: random.Random, calls: int) -> list[list[int]]:
    """Return numbers of levels, some of which are equal for the same calls, or for nearly all."""
    levels = [[rng.randrange(ROUTES) for _ in range(calls)]]
    for _ in range(4):
        level = [value * 7 + 1 for value in levels[-1]]
        change = rng.choice(("none", "one", "merged", "absent", "other"))
        if change == "one":
            level[rng.randrange(calls)] = rng.choice((1, 8, 99))
        elif change == "merged":
            level = [value // (max(level) + 1) + 1 for value in level]
        elif change == "absent":
            level[rng.randrange(calls)] = 0
        elif change == "other":
            level = [value * TEXTS + rng.randrange(TEXTS) for value in level]
        levels.append(level)
    return levels


def _find_slowly(frame: pl.DataFrame, names: list[str], seconds: int) -> list[tuple[object, int]]:
    rows, found = frame.rows(named=True), list[tuple[object, int]]()
    for row in rows:
        best: tuple[object, int] = (None, 0)
        for level, name in enumerate(names, 1):
            earlier = [
                (each["second"], number)
                for number, each in enumerate(rows)
                if each["group"] == row["group"] and each["second"] < row["second"]
                if each[name] == row[name] > 0
            ]
            if earlier and row["second"] - max(earlier)[0] <= seconds:
                best = max(earlier)[1], level
        found.append(best)
    return found


def _check(group: list[int], second: list[int], levels: list[list[int]]) -> None:
    names = ["prefix", *(f"prefix_{level}" for level in range(2, len(levels) + 1))]
    numbers = (pl.Series(level, dtype=pl.UInt64) for level in levels)
    frame = pl.DataFrame(
        {
            "group": pl.Series(group, dtype=pl.Int32),
            "second": second,
            "at_us": [each * 1_000_000 for each in second],
            "prompt_tokens": 10,
            "completion_tokens": 10,
            **dict(zip(names, numbers, strict=True)),
        }
    )
    paired = pair(frame.lazy(), Thresholds()).collect()
    expected = _find_slowly(frame, names, 300)
    assert list(zip(paired["pair"], paired["level"], strict=True)) == expected


@each_case("seed", range(40))
def test_the_pair_is_the_last_call_before_at_the_highest_equal_level(seed: int) -> None:
    rng = random.Random(seed)
    calls = rng.choice((1, 2, 30, 60))
    group = sorted(rng.randrange(2) for _ in range(calls))
    second = sorted(200 * number // rng.choice((1, 1, 2)) for number in range(calls))
    _check(group, second, _equal_levels(rng, calls))


def test_a_level_that_as_many_other_calls_have_is_another_one() -> None:
    _check([0] * 8, list(range(8)), [[0] * 4 + [5] * 4, [7] * 4 + [0] * 4])
