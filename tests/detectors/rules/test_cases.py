"""Every case of `cases/*.toml`, on every engine; and each file tries what it should."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import narwhals.stable.v2 as nw
import polars as pl
import pytest

from detectors.prices.book import PriceBook
from detectors.rules import DETECTORS
from tests.detectors.rules.case import Case, Place, find_detector, flag_calls, read_cases

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


@pytest.fixture(scope="module")
def book() -> PriceBook:
    return PriceBook()


def _every_case() -> Iterator[Any]:
    """Each case on Polars, one case a kind of finding on each other engine; others under stress."""
    first = {
        (case.slug, key[0], line.confidence): str(case)
        for case in reversed(CASES)
        for key, line in case.finds.items()
    }
    for case, engine in product(CASES, ENGINES):
        is_always = engine == "polars" or str(case) in first.values()
        marks = [] if is_always else [pytest.mark.stress]
        yield pytest.param(case, ENGINES[engine], id=f"{engine}-{case}", marks=marks)


@pytest.mark.parametrize(("case", "frame"), [*_every_case()])
def test_it_finds_what_the_case_says(case: Case, frame: Place, book: PriceBook) -> None:
    found = flag_calls(case, frame, book)
    assert {key: (line.calls, line.confidence) for key, line in found.items()} == {
        key: (line.calls, line.confidence) for key, line in case.finds.items()
    }
    for key, line in case.finds.items():
        for end in ("usd", "low", "high"):
            expected = pytest.approx(getattr(line, end), abs=Decimal("1e-11"))
            assert getattr(found[key], end) == expected, (key, end)


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
