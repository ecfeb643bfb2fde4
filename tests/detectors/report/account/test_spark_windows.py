"""The window of an account's calls on Spark: the same calls as on Polars."""

from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from detectors.contract import CallWindow
from detectors.engine import scanned_on_spark
from detectors.report.account import merge_files, write_calls
from detectors.report.account.spark_windows import IncompleteFilesError, read_table
from detectors.report.account.windows import read_window
from tests.detectors.engine.frames import NEEDS_JAVA, spark
from tests.detectors.report.account.test_call_files import at, frame

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
def test_spark_reads_the_same_window_as_polars(files: list[Path]) -> None:
    spark()
    calls = sum(pl.scan_parquet(file).select(pl.len()).collect().item() for file in files)
    expected = read_window(files, WINDOW).calls
    with scanned_on_spark([file.as_uri() for file in files], "", "local[1]") as table:
        found = read_table(table, WINDOW, calls)
        assert (found.rows, found.invalid) == (expected.rows, expected.invalid)
        assert found.future_calls == expected.future_calls == 4
        frames = [each.calls.collect("polars").to_native() for each in (found, expected)]
        assert frames[0].height == expected.rows - 1 < calls
        assert frames[0].sort(pl.all()).equals(frames[1].select(frames[0].columns).sort(pl.all()))
        assert set(frames[0].columns) == set(frames[1].columns)
        with pytest.raises(IncompleteFilesError):
            read_table(table, WINDOW, calls + 1)
