"""However many calls and routes there are, a report stays one that a person can read."""

from decimal import Decimal
from typing import Any

import polars as pl
import pytest

import detectors
from benchmarks.usage import json_lines, parquet
from detectors.contract import LONGEST_LIST
from tests.cases import data_of, each_case

ALL = pytest.param(1, id="all", marks=pytest.mark.stress)


@pytest.mark.parametrize("scale", [pytest.param(25, id="a twenty-fifth"), ALL])
def test_a_million_calls_of_forty_routes_make_a_short_report(scale: int) -> None:
    file = json_lines(1_000_000 // scale)
    report = detectors.audit(file)
    document = report.to_json()
    assert report.audit.records == 1_000_000 // scale
    assert 20 < len(report.findings) <= 400
    priced = [one for one in report.findings if one.confidence != "INFORMATIONAL"]
    assert min(one.monthly_cost_impact_usd for one in priced) >= Decimal("0.01")
    assert report.other_routes.count == 0
    assert len(document) < 2_000_000
    assert detectors.audit(file).to_json() == document


@pytest.mark.parametrize("scale", [pytest.param(10, id="a tenth"), ALL])
def test_very_many_routes_do_not_make_a_long_report(scale: int) -> None:
    routes = 170_000 // scale
    frame = pl.select(
        ts=pl.lit("2026-11-02T10:00:00Z"),
        provider=pl.lit("openai"),
        model=pl.lit("gpt-5.4"),
        tag=pl.format("a route with a long name, number {}", pl.int_range(routes)),
        prompt_tokens=pl.int_range(1_000, 1_000 + routes),
        completion_tokens=pl.lit(500),
    )
    report = detectors.audit(frame)
    assert len(report.spend_by_route) == LONGEST_LIST
    assert report.other_routes.count == routes - LONGEST_LIST
    listed = sum(route.spend_usd for route in report.spend_by_route)
    assert listed + report.other_routes.spend_usd == pytest.approx(
        report.audit.total_spend_usd, abs=Decimal("0.001")
    )
    assert len(report.to_json()) < 500_000


def test_parquet_makes_the_same_report_as_the_frame_it_holds() -> None:
    files = parquet(10_000)
    assert detectors.audit(files).to_json() == (detectors.audit(pl.read_parquet(files)).to_json())


@pytest.mark.parametrize("thresholds", [{"floor_usd": 1.0}, {}, [], 5, "low"], ids=repr)
def test_thresholds_of_another_kind_are_refused(thresholds: Any) -> None:
    with pytest.raises(TypeError, match=r"such as detectors\.Thresholds\(floor_usd=1\.0\)"):
        detectors.audit([], thresholds=thresholds)


@each_case(("name", "value", "limits"), data_of(__file__)["meaningless"])
def test_meaningless_thresholds_are_rejected(name: str, value: Any, limits: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be (a number|an integer) from {limits}$"):
        detectors.Thresholds(**{name: value})
