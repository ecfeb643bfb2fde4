"""The window of an account's calls on Spark: the same calls as on Polars."""

from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

import detectors
from detectors.contract import CallWindow
from detectors.report.account import merge_files, write_calls
from detectors.report.account.imports import Terms
from detectors.report.account.spark_windows import SparkWindows
from detectors.report.account.windows import audit_window
from tests.detectors.inputs.frames import NEEDS_JAVA, spark
from tests.detectors.report.account.test_call_files import at, frame

TERMS = Terms(detectors.PriceBook(), None, detectors.Thresholds())
# Its newest calls, a day and an hour later than this, are in the future.
WINDOW = CallWindow(
    days=7, now=datetime(2026, 10, 11, 12, tzinfo=UTC), duplicates=1, future_calls=2
)
# Some files have other optional columns than others; a call of the first day is too old.
FRAMES = [
    frame(*(at(days=days, hours=-12) for days in range(8)), {"environment": "test"}),
    frame(at(days=7), {"latency_ms": 30.5, "session_id": "s", "service_tier": "flex"}),
    frame(at(days=3) | {"reasoning_tokens": 3, "request_id": "r2"}, import_id="b"),
    frame(at(days=7, hours=1), at(days=2_700), import_id="c"),
]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = []
    for number, each in enumerate(merge_files(FRAMES, months_before=date(2000, 1, 1))):
        paths.append(tmp_path / str(number))
        with paths[-1].open("wb") as file:
            write_calls(each.frame, file)
    return paths


@NEEDS_JAVA
def test_an_audit_on_spark_is_the_one_in_memory(files: list[Path]) -> None:
    spark()
    calls = sum(pl.scan_parquet(file).select(pl.len()).collect().item() for file in files)
    expected = audit_window(files, WINDOW, TERMS)
    windows, urls = SparkWindows(TERMS, master="local[1]"), [file.as_uri() for file in files]
    found = windows.audit(urls, WINDOW, calls=calls)
    from detectors.distributed.spark.windows import IncompleteFilesError

    assert found.report.to_json() == expected.report.to_json()
    assert (found.finding_days, found.traffic) == (expected.finding_days, expected.traffic)
    assert expected.report.data_quality is not None
    assert expected.report.data_quality.future_calls == 4
    with pytest.raises(IncompleteFilesError):
        windows.audit(urls, WINDOW, calls=calls + 1)
