"""The calls stay where they are: only findings, groups and days come back."""

from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl
import pytest
from narwhals._duckdb.dataframe import DuckDBLazyFrame

import detectors
from detectors import Report
from detectors.engine.duckdb import DuckdbEngine
from detectors.engine.engine import Calls, Row
from detectors.frames import CALLS, OPTIONAL_CALLS
from tests.detectors.engine.frames import ENGINES, NEEDS_JAVA, as_polars, spark
from tests.detectors.reference.traffic import draw_log

COPIES = 30
# The first log has most kinds of findings.
SEED, SEED_FOR_SPARK = 39, 9
TABLES = ("anchor", "calls", "given", "one")


def _calls(seed: int, copies: int) -> pl.DataFrame:
    """A log as often as that, each copy a day later, so that findings stay as many; shuffled."""
    frame = as_polars(draw_log(seed))
    shifted = [frame.with_columns(pl.col("ts") + pl.duration(days=day)) for day in range(copies)]
    return pl.concat(shifted).sample(fraction=1, shuffle=True, seed=seed)


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("collected")


def _refuse_to_collect(monkeypatch: pytest.MonkeyPatch) -> None:
    # Imports PySpark, which few processes need.
    from narwhals._spark_like.dataframe import SparkLikeLazyFrame

    monkeypatch.setattr(DuckDBLazyFrame, "collect", _refuse)
    monkeypatch.setattr(SparkLikeLazyFrame, "collect", _refuse)


@dataclass(frozen=True)
class Audited:
    """An audit on DuckDB, how many rows each result had that it fetched, and on Polars alike."""

    connection: duckdb.DuckDBPyConnection
    report: Report
    fetched: list[int]
    on_polars: Report


@pytest.fixture(scope="module")
def audited() -> Audited:
    """Audit a query with a parameter on a table of the caller, whose names we might use too."""
    connection, frame = duckdb.connect(), _calls(SEED, COPIES)
    for name in TABLES:
        connection.from_arrow(frame.to_arrow()).create(name)
    some = connection.sql("FROM calls WHERE prompt_tokens > ?", params=[200])
    with pytest.MonkeyPatch.context() as monkeypatch:
        fetched = _count_fetched(monkeypatch)
        _refuse_to_collect(monkeypatch)
        report = detectors.audit(some)
    on_polars = detectors.audit(frame.filter(pl.col("prompt_tokens") > 200))
    return Audited(connection, report, fetched, on_polars)


def _count_fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []
    fetch = DuckdbEngine.fetch

    def count(engine: DuckdbEngine, few: Calls) -> list[Row]:
        rows = fetch(engine, few)
        counts.append(len(rows))
        return rows

    monkeypatch.setattr(DuckdbEngine, "fetch", count)
    return counts


def test_duckdb_fetches_no_more_than_findings_need(audited: Audited) -> None:
    assert audited.report.audit.records > COPIES * 500
    assert 0 < sum(audited.fetched) < audited.report.audit.records / 10
    assert max(audited.fetched) <= 20 * len(audited.report.findings)


def test_tables_of_the_caller_are_neither_taken_for_the_calls_nor_touched(
    audited: Audited,
) -> None:
    assert audited.report.to_json() == audited.on_polars.to_json()
    assert _tables(audited) == [*TABLES]


@pytest.mark.stress
def test_duckdb_computes_the_calls_again_and_keeps_no_table_of_ours(audited: Audited) -> None:
    """By default, on Polars: `tests/detectors/report`."""
    most = max(audited.report.findings, key=lambda finding: finding.calls)
    behind, expected = audited.report.calls(most), audited.on_polars.calls(most.id)
    numbers = [name for name, kind in behind.schema.items() if kind.is_numeric()]
    assert behind.height == most.calls
    assert behind.select(numbers).cast(pl.Float64).rows() == (
        expected.select(numbers).cast(pl.Float64).rows()
    )
    assert _tables(audited) == [*TABLES]


def _tables(audited: Audited) -> list[str]:
    names = audited.connection.sql("SELECT table_name FROM duckdb_tables() ORDER BY 1")
    return [name for (name,) in names.fetchall()]


@pytest.mark.stress
@NEEDS_JAVA
def test_spark_fetches_no_more_than_findings_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """And in shuffled rows the report is the same, to the last digit."""
    _refuse_to_collect(monkeypatch)
    calls = _calls(SEED_FOR_SPARK, COPIES)
    frame: Any = ENGINES["pyspark"](calls)
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
