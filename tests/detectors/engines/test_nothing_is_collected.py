"""The calls stay where they are: only findings, groups and days come back."""

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from narwhals._duckdb.dataframe import DuckDBLazyFrame
from narwhals._spark_like.dataframe import SparkLikeLazyFrame

import detectors
from detectors.engines.duckdb import DuckdbEngine
from detectors.engines.engine import Calls, Row
from detectors.frames import CALLS, OPTIONAL_CALLS
from tests.detectors.engines.frames import ENGINES, NEEDS_JAVA, as_polars, spark
from tests.detectors.reference.traffic import draw_log

COPIES = 25


def _calls(copies: int) -> pl.DataFrame:
    """A log as often as that, each copy a day later, so that findings stay as many."""
    frame = as_polars(draw_log(9))
    shifted = [frame.with_columns(pl.col("ts") + pl.duration(days=day)) for day in range(copies)]
    return pl.concat(shifted)


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("collected")


@pytest.fixture(scope="module")
def crossed() -> Iterator[list[int]]:
    """How many rows each result had that came back; whatever else would collect is refused."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield _count_fetched(monkeypatch)


def _count_fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []
    fetch = DuckdbEngine.fetch

    def count(engine: DuckdbEngine, few: Calls) -> list[Row]:
        rows = fetch(engine, few)
        counts.append(len(rows))
        return rows

    monkeypatch.setattr(DuckdbEngine, "fetch", count)
    monkeypatch.setattr(DuckDBLazyFrame, "collect", _refuse)
    monkeypatch.setattr(SparkLikeLazyFrame, "collect", _refuse)
    return counts


@pytest.fixture(scope="module")
def on_duckdb() -> Any:
    return ENGINES["duckdb"](_calls(COPIES))


@pytest.fixture(scope="module")
def report(crossed: list[int], on_duckdb: Any) -> detectors.Report:
    crossed.clear()
    return detectors.audit(on_duckdb)


def test_duckdb_fetches_no_more_than_findings_need(
    crossed: list[int], report: detectors.Report
) -> None:
    assert report.audit.records > COPIES * 700
    assert 0 < sum(crossed) < report.audit.records / 10
    assert max(crossed) <= 20 * len(report.findings)


def test_duckdb_keeps_no_table_of_ours(report: detectors.Report, on_duckdb: Any) -> None:
    assert report.findings
    tables = on_duckdb.query("calls", "SELECT count(*) FROM duckdb_tables()").fetchall()
    assert tables == [(0,)]


@pytest.mark.stress
@NEEDS_JAVA
def test_spark_fetches_no_more_than_findings_need(
    crossed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And in shuffled rows the report is the same, to the last digit."""
    calls = _calls(COPIES)
    frame: Any = ENGINES["pyspark"](calls.sample(fraction=1, shuffle=True, seed=9))
    kind = type(frame)
    collect, counts = kind.collect, list[int]()

    def count(native: Any) -> list[Any]:
        rows: list[Any] = collect(native)
        counts.append(len(rows))
        return rows

    monkeypatch.setattr(kind, "collect", count)
    for name in ("toArrow", "toPandas", "toLocalIterator", "take", "head"):
        monkeypatch.setattr(kind, name, _refuse)
    report = detectors.audit(frame)
    assert report.audit.records > COPIES * 700
    assert 0 < sum(counts) < report.audit.records / 10
    assert max(counts) <= 20 * len(report.findings)
    assert report.to_json() == detectors.audit(calls).to_json()
    assert spark().catalog.listTables() == []
    assert {*CALLS, *OPTIONAL_CALLS} >= set(frame.columns)
