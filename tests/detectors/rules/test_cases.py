"""Every case of `cases/*.toml`, on every engine; and each file tries what it should."""

from collections.abc import Callable
from decimal import Decimal
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


@pytest.fixture(params=list(ENGINES))
def frame(request: pytest.FixtureRequest) -> Place:
    """Records as a frame of each engine in turn."""
    return ENGINES[request.param]


@pytest.fixture(scope="module")
def book() -> PriceBook:
    return PriceBook()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_finds_what_the_case_says(case: Case, frame: Place, book: PriceBook) -> None:
    found = flag_calls(case, frame, book)
    assert {key: (line.calls, line.confidence) for key, line in found.items()} == {
        key: (line.calls, line.confidence) for key, line in case.finds.items()
    }
    for key, line in case.finds.items():
        assert found[key].usd == pytest.approx(line.usd, abs=Decimal("1e-11")), key


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.id)
def test_each_detector_has_cases_that_fire_and_cases_that_do_not(detector: Any) -> None:
    own = [case for case in CASES if find_detector(case.slug) is detector]
    fired = {kind for case in own for kind, _ in case.finds}
    assert fired == {kind.name for kind in detector.kinds}
    assert any(not case.finds for case in own)
