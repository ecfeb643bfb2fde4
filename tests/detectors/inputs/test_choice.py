"""Which engine audits run on: names, missing packages, a missing Java, files."""

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import narwhals.stable.v2 as nw
import polars as pl
import pytest

import detectors
from detectors.engine import MissingEngineError, UnknownEngineError
from detectors.engine.duckdb import DuckdbEngine
from detectors.engine.polars import PolarsEngine
from detectors.errors import DetectorError, UnreadableLogError
from detectors.formats.moments import EPOCH, MICROSECOND, read_moment
from detectors.frames import place
from tests.detectors.engine.frames import as_polars
from tests.detectors.reference.traffic import draw_log
from tests.lazily import pd

CALLS = tuple(draw_log(9)[:50])


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    file = tmp_path / "calls.parquet"
    as_polars(CALLS).write_parquet(file)
    return file


def test_files_of_parquet_need_no_engine_named(parquet: Path) -> None:
    expected = detectors.audit(CALLS).to_json()
    for source in (parquet, str(parquet), str(parquet.parent / "*.parquet")):
        assert detectors.audit(source).to_json() == expected
    assert detectors.read(parquet).rows == len(CALLS)


def test_an_engine_of_another_name_is_refused(parquet: Path) -> None:
    with pytest.raises(UnknownEngineError, match="engines: polars, duckdb, pyspark"):
        detectors.audit(parquet, engine="dask")


def test_an_engine_is_for_files(parquet: Path) -> None:
    with pytest.raises(TypeError, match="pass their path"):
        detectors.audit(pl.read_parquet(parquet), engine="duckdb")


@pytest.mark.parametrize(
    ("engine", "package", "module"),
    [("pyspark", "pyspark.sql", "spark"), ("duckdb", "duckdb", "duckdb")],
)
def test_a_missing_package_is_named(
    engine: str, package: str, module: str, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"detectors.engine.{module}", raising=False)
    with pytest.raises(MissingEngineError, match=f"engine {engine} needs a package: pip install"):
        detectors.audit(parquet, engine=engine)


def test_without_java_spark_says_what_it_needs(parquet: Path, tmp_path: Path) -> None:
    code = (
        "import sys, detectors\n"
        "try: detectors.audit(sys.argv[1], engine='pyspark')\n"
        "except detectors.DetectorError as error: print(error)"
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith("JAVA")}
    # Spark's start script is bash, which is all that this PATH leads to.
    (tmp_path / "bash").symlink_to("/bin/bash")
    run = subprocess.run(
        [sys.executable, "-c", code, str(parquet)],
        env=bare | {"PATH": str(tmp_path), "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Install Java 17 or later" in run.stdout


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_other_files_are_not_parquet(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "calls.parquet"
    file.write_bytes(b"CANARY, CANARY")
    for path in (file, tmp_path / "missing.parquet"):
        with pytest.raises(UnreadableLogError, match="Parquet files at that path") as caught:
            detectors.audit(path, engine=engine)
        assert "CANARY" not in str(caught.value)


def test_lazy_frames_of_other_engines_are_not_collected() -> None:
    table = pl.DataFrame(as_polars(CALLS[:3])).to_arrow()
    for frame, kind in (
        (table, PolarsEngine),  # in this process already
        (nw.from_native(duckdb.from_arrow(table)).lazy(), DuckdbEngine),
    ):
        placed, engine = place(frame)
        assert placed.rows == 3
        assert type(engine) is kind


TEXTS = [
    "2026-01-01", "2026-01-01T10:00", "2026-01-01 10:00:00", "2026-01-01T10:00:00Z",
    "2026-01-01t10:00:00z", "2026-01-01T10:00:00+01:00", "2026-01-01T10:00:00-0830",
    "2026-01-01T10:00:00+05", "2026-01-01T10:00:00.5", "2026-01-01T10:00:00,25Z",
    "2026-01-01T10:00:00.1234565Z", "2026-01-01T10:00:00.123456489-01:00",
    "2026-02-30", "2026-01-01T24:00", "2026-01-01T10:60", "2026-01-01T10:00:60", "soon", "",
    "2026-01-01T10:00:00+24:00", "2026-13-01", "1999-12-31", "2100-01-01", "2026-01-01T",
]  # fmt: skip


def test_duckdb_reads_times_as_every_log_does() -> None:
    row = {"provider": "openai", "model": "gpt-5.4", "completion_tokens": 1}
    rows = [row | {"ts": text, "prompt_tokens": number} for number, text in enumerate(TEXTS)]
    log = detectors.read(duckdb.from_arrow(pl.DataFrame(rows).to_arrow()))
    found = dict(log.frame.select("prompt_tokens", pl.col("ts").dt.timestamp("us")).iter_rows())
    expected = {number: at for number, text in enumerate(TEXTS) if (at := _at_us(text)) is not None}
    assert expected.pop(TEXTS.index("2026-01-01T24:00"))  # frames have no name for a day's end
    assert len(expected) == 12
    assert found == expected
    assert log.invalid.count == len(TEXTS) - len(expected)
    assert all("ts must be" in reason for reason in log.invalid.reasons)


def _at_us(text: str) -> int | None:
    try:
        return (read_moment(text) - EPOCH) // MICROSECOND
    except ValueError:
        return None


def test_python_objects_of_pandas_are_checked_by_their_type() -> None:
    frame = pd.DataFrame(
        {
            "ts": ["2026-01-01"] * 3,
            "provider": ["openai"] * 3,
            "model": ["gpt-5.4"] * 3,
            "prompt_tokens": pd.Series([1, None, 3], dtype=object),
            "completion_tokens": pd.Series([1, 2, 3], dtype=object),
            "tag": pd.Series([None, "a", "b"], dtype=object),
        }
    )
    log = detectors.read(frame)
    assert log.frame.height == 2
    assert log.invalid.reasons == {"missing field prompt_tokens": 1}
    assert [row.line for row in log.invalid.first] == [2]


def test_an_engine_error_is_one_of_ours() -> None:
    assert issubclass(MissingEngineError, DetectorError)
