"""What reads files of Parquet: names of engines, missing packages, a missing Java, other files."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest

import detectors
from detectors.errors import DetectorError, UnreadableLogError
from detectors.frames.inputs import MissingEngineError, UnknownEngineError
from tests.detectors.inputs.frames import as_polars
from tests.detectors.reference.traffic import draw_log
from tests.worker.support.faulty_s3 import running_s3
from tests.worker.support.promises import sampled

CALLS = tuple(draw_log(9)[:50])


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    file = tmp_path / "calls.parquet"
    as_polars(CALLS).write_parquet(file)
    return file


def test_an_engine_is_for_files_and_need_not_be_named(parquet: Path) -> None:
    expected = detectors.audit(CALLS).to_json()
    for source in (parquet, str(parquet), str(parquet.parent / "*.parquet")):
        assert detectors.audit(source).to_json() == expected
    assert detectors.read(parquet).rows == len(CALLS)
    # An engine of another name is refused.
    with pytest.raises(UnknownEngineError, match="engines: polars, duckdb, pyspark"):
        detectors.audit(parquet, engine="dask")
    # An engine is for files.
    with pytest.raises(TypeError, match="pass their path"):
        detectors.audit(pl.read_parquet(parquet), engine="duckdb")


@pytest.mark.parametrize(("engine", "package"), [("pyspark", "pyspark.sql"), ("duckdb", "duckdb")])
def test_a_missing_package_is_named(
    engine: str, package: str, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "detectors.frames.spark", raising=False)
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


def test_an_engine_error_is_one_of_ours() -> None:
    assert issubclass(MissingEngineError, DetectorError)


def test_files_in_a_bucket_are_read_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the settings that Polars takes from the environment."""
    frame = as_polars(CALLS)
    expected = detectors.audit(CALLS).to_json()
    with running_s3() as bucket:
        for number, part in enumerate(frame.iter_slices(20)):
            file = BytesIO()
            part.write_parquet(file)
            bucket.objects[f"logs/{number}.parquet"] = (file.getvalue(), datetime.now(UTC))
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        assert detectors.audit("s3://bucket/logs/*.parquet").to_json() == expected
        assert detectors.read("s3://bucket/logs/1.parquet").rows == 20
        for missing in ("s3://bucket/logs/9.parquet", "s3://bucket/none/*.parquet"):
            with pytest.raises(UnreadableLogError, match="Parquet files at that path"):
                detectors.audit(missing)
        assert bucket.requests


@pytest.mark.parametrize("endpoint", sampled(["", "http://127.0.0.1:9"], 2))
def test_a_missing_extension_of_duckdb_is_named(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It reads no bucket without one, and can't always download it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(MissingEngineError, match="DuckDB needs its extension httpfs"):
        detectors.audit("s3://bucket/calls.parquet", engine="duckdb")
