"""Every case of `cases/*.toml`, on every engine; and each file tries what it should."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from itertools import product
from typing import Any

import duckdb
import narwhals.stable.v2 as nw
import polars as pl
import pytest

from detectors.prices.book import PriceBook
from detectors.rules import DETECTORS
from tests.detectors.rules.case import (
    Case,
    Found,
    Key,
    find_detector,
    flag_calls,
    group_cases,
    read_cases,
)

CASES = read_cases()


def _pandas(records: pl.DataFrame) -> Any:
    columns = records.drop("ts").to_dict(as_series=False)
    return nw.from_dict(columns, backend="pandas").to_native()


def _duckdb(records: pl.DataFrame) -> Any:
    return duckdb.from_arrow(records.drop("ts").to_arrow())


ENGINES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda records: records.lazy(),
    "pandas": _pandas,
    "duckdb": _duckdb,
}


TOGETHER = group_cases(CASES)


@cache
def _find_together(number: int, engine: str) -> dict[str, dict[Key, Found]]:
    """Return what is found in each case of a group on an engine, in a single frame."""
    cases = TOGETHER[number]
    found = flag_calls(cases, ENGINES[engine], PriceBook())
    return {str(case): own for case, own in zip(cases, found, strict=True)}


def _every_case() -> Iterator[Any]:
    """Each case on Polars, the largest group on each other engine too; others under stress."""
    largest = max(TOGETHER, key=len)
    for engine, (number, cases) in product(ENGINES, enumerate(TOGETHER)):
        is_always = engine == "polars" or cases is largest
        marks = [] if is_always else [pytest.mark.stress]
        for case in cases:
            yield pytest.param(case, number, engine, id=f"{engine}-{case}", marks=marks)


@pytest.mark.parametrize(("case", "group", "engine"), [*_every_case()])
def test_it_finds_what_the_case_says(case: Case, group: int, engine: str) -> None:
    found = _find_together(group, engine)[str(case)]
    assert {key: (line.calls, line.confidence) for key, line in found.items()} == {
        key: (line.calls, line.confidence) for key, line in case.finds.items()
    }
    for key, line in case.finds.items():
        for end in ("usd", "low", "high"):
            expected = pytest.approx(getattr(line, end), abs=Decimal("1e-11"))
            assert getattr(found[key], end) == expected, (key, end)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.id)
def test_a_case_alone_gives_the_same(detector: Any) -> None:
    number, case = next(
        (number, case)
        for number, cases in enumerate(TOGETHER)
        for case in cases
        if case.finds and find_detector(case.slug) is detector
    )
    _compare_alone(case, number, "polars")


@pytest.mark.stress
@pytest.mark.parametrize("engine", ENGINES)
def test_every_case_alone_gives_the_same(engine: str) -> None:
    for number, cases in enumerate(TOGETHER):
        for case in cases:
            _compare_alone(case, number, engine)


def _compare_alone(case: Case, group: int, engine: str) -> None:
    (found,) = flag_calls([case], ENGINES[engine], PriceBook())
    assert found == _find_together(group, engine)[str(case)], str(case)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.id)
def test_each_detector_has_cases_that_fire_and_cases_that_do_not(detector: Any) -> None:
    own = [case for case in CASES if find_detector(case.slug) is detector]
    fired = {
        (kind, line.confidence, is_reported)
        for case in own
        for (kind, _, is_reported), line in case.finds.items()
    }
    assert fired == {(kind.name, kind.confidence, kind.is_reported) for kind in detector.kinds}
    assert any(not case.finds for case in own)
