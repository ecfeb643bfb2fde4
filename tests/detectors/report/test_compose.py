"""Savings that overlap on one call, by how sure they are, worked out by hand."""

from collections.abc import Sequence, Set
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from detectors.engine import Calls
from detectors.report.compose import (
    COMBINED,
    EVERY_CLAIM,
    Savings,
    compose_savings,
    find_columns,
    headline_savings,
)
from detectors.rules import DETECTORS
from detectors.rules.detector import CONDITIONAL, ESTIMATED, INFORMATIONAL, VERIFIED

SCHEMA = {
    "number": pl.Int64,
    "kind": pl.Int8,
    "in_window": pl.Boolean,
    "cost_usd": pl.Float64,
    "saving_usd": pl.Float64,
    "low_usd": pl.Float64,
    "high_usd": pl.Float64,
}
Row = dict[str, Any]


def detector_with(confidence: str, *, other_than: int = -1) -> tuple[int, int]:
    """The first detector and its first kind with this confidence."""
    return next(
        (index, number)
        for index, detector in enumerate(DETECTORS)
        for number, kind in enumerate(detector.kinds)
        if kind.confidence == confidence and kind.is_reported and index != other_than
    )


def row(index_and_kind: tuple[int, int], saving: float, **changes: Any) -> tuple[int, Row]:
    index, kind = index_and_kind
    whole = {"number": 1, "kind": kind, "in_window": True, "cost_usd": 10.0, "saving_usd": saving}
    return index, whole | {"low_usd": saving, "high_usd": saving} | changes


def compose(*rows: tuple[int, Row], spent: int = 100, factor: int = 1) -> Savings:
    flagged: list[Calls] = []
    for index in range(len(DETECTORS)):
        own = [each for detector, each in rows if detector == index]
        flagged.append(pl.DataFrame(own, SCHEMA).lazy())
    claimed = {(index, DETECTORS[index].kinds[each["kind"]].confidence) for index, each in rows}
    # Claims of no call make no difference, nor does which detector's calls are not grouped.
    largest = [None, *({index for index, _ in rows} if _are_once(rows) else ())]
    saved, *others = (
        sum_up(compose_savings(flagged, claims, each), claims, spent, factor)
        for claims in (EVERY_CLAIM, claimed)
        for each in largest
    )
    assert all(other == saved for other in others)
    return saved


def _are_once(rows: Sequence[tuple[int, Row]]) -> bool:
    calls = [(index, each["number"]) for index, each in rows]
    return len(set(calls)) == len(calls)


def sum_up(calls: Calls, claims: Set[tuple[int, str]], spent: int, factor: int) -> Savings:
    combined = calls.collect()
    summed = dict.fromkeys(COMBINED, Decimal(0))
    for name, column in find_columns(claims).items():
        summed[name] = Decimal(str(round(combined[column].sum(), 9)))
    return headline_savings(summed, Decimal(spent), Decimal(factor))


def usd(savings: Savings, *names: str) -> list[float]:
    return [float(getattr(savings, name)) for name in names]


SURE = detector_with(VERIFIED)
LIKELY = detector_with(ESTIMATED, other_than=SURE[0])
POSSIBLE = detector_with(CONDITIONAL)


def test_each_sum_is_what_it_adds_beyond_the_surer_ones() -> None:
    saved = compose(
        row(SURE, 4),
        row(LIKELY, 5, low_usd=2.5, high_usd=10.0),
        row(POSSIBLE, 5, low_usd=0.0, high_usd=8.0),
    )
    assert saved.verified == 4
    # Of the $6 that is left, half; at least a quarter; at most all of it.
    assert usd(saved, "estimated", "estimated_low", "estimated_high") == [3, 1.5, 6]
    # Of the $3 that is left then, half; nothing; 80%.
    assert usd(saved, "conditional", "conditional_low") == [1.5, 0]
    assert saved.conditional_high == Decimal("2.4")
    assert sum(saved.steps) == 7


def test_savings_of_different_calls_add_up_and_are_projected() -> None:
    saved = compose(row(SURE, 4), row(LIKELY, 5, number=2), factor=3)
    assert usd(saved, "verified", "estimated") == [12, 15]


@pytest.mark.parametrize("change", [{"in_window": False}, {"cost_usd": 0.0}])
def test_calls_outside_the_window_or_without_cost_save_nothing(change: Row) -> None:
    saved = compose(row(SURE, 4), row(LIKELY, 5, number=2, **change))
    assert usd(saved, "verified", "estimated", "estimated_high") == [4, 0, 0]


def test_a_call_saves_at_most_its_cost_and_a_sum_at_most_the_spend() -> None:
    assert compose(row(LIKELY, 12)).estimated == 10
    assert compose(row(LIKELY, 10), row(LIKELY, 10, number=2), spent=15, factor=2).estimated == 30


def test_a_negative_sum_is_zero() -> None:
    saved = compose(row(LIKELY, 1, low_usd=-4.0))
    assert usd(saved, "estimated", "estimated_low") == [1, 0]
    assert compose(row(LIKELY, -1)).estimated == 0


def test_kinds_of_one_detector_are_summed_before_they_are_composed() -> None:
    index, kind = LIKELY
    saved = compose(row((index, kind), 2), row((index, kind), 3))
    assert saved.estimated == 5


def test_kinds_without_savings_and_kinds_that_are_not_reported() -> None:
    assert compose(row(LIKELY, 1), row(detector_with(INFORMATIONAL), 0, number=2)).estimated == 1
    hidden = next(
        (index, number)
        for index, detector in enumerate(DETECTORS)
        for number, each in enumerate(detector.kinds)
        if not each.is_reported
    )
    saved = compose(row(hidden, 0, high_usd=6.0))
    assert usd(saved, "conditional", "conditional_high") == [0, 6]
