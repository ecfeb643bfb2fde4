"""Equal findings, to the cent and in the same order, however the calls came.

The documents are compared whole, to the last digit: findings, evidence, spend by model and day.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random

import polars as pl
import pytest

import detectors
from detectors import Report
from detectors.contract import UsageRecord
from detectors.formats import read_chunks
from detectors.frames import from_chunks
from tests.detectors.inputs.frames import (
    EVERY_INPUT,
    INPUTS,
    LOCAL_INPUTS,
    NEEDS_JAVA,
    as_polars,
    spark,
)
from tests.detectors.inputs.test_record_v2 import FRAME as WITH_NEW_COLUMNS
from tests.detectors.reference import logs
from tests.detectors.reference.traffic import draw_log
from tests.worker.support.promises import at_a_fortieth

# Logs that between them have every kind of finding, price changes within and duplicate rows.
SEEDS = (106, 39)
MORE_SEEDS = range(300, 330)


@cache
def _log(seed: int) -> tuple[UsageRecord, ...]:
    return tuple(draw_log(seed))


@cache
def _report(seed: int) -> Report:
    return detectors.audit(_log(seed))


def _shuffled(seed: int) -> pl.DataFrame:
    records = list(_log(seed))
    Random(seed).shuffle(records)
    return as_polars(records)


@pytest.mark.parametrize(
    ("library", "seed"),
    [
        pytest.param(library, seed, marks=[pytest.mark.stress] if number else [])
        for library in LOCAL_INPUTS
        for number, seed in enumerate(SEEDS)
    ],
)
def test_random_traffic_in_shuffled_rows_gives_the_same_report(library: str, seed: int) -> None:
    report = detectors.audit(INPUTS[library](_shuffled(seed)))
    assert report.findings == _report(seed).findings
    assert report.to_json() == _report(seed).to_json()


@pytest.mark.stress
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("library", EVERY_INPUT)
def test_much_random_traffic_gives_the_same_report(library: str) -> None:
    for seed in MORE_SEEDS:
        report = detectors.audit(INPUTS[library](_shuffled(seed)))
        assert _rounded(report) == _rounded(_report(seed)), seed


def _rounded(report: Report) -> object:
    """The document with dollars to a millionth: the last of their 9 decimals may lie on an edge."""
    return json.loads(report.to_json(), parse_float=lambda digits: round(float(digits), 6))


class Torn(BytesIO):
    """A file whose first read ends at a given byte."""

    def __init__(self, text: bytes, at: int) -> None:
        super().__init__(text)
        self._at = at

    def read(self, size: int | None = -1, /) -> bytes:
        left = self._at - self.tell()
        return super().read(left if left > 0 else size)


def _cuts(text: bytes, share: float) -> list[int]:
    """Return this share of all bytes to cut at, and the bytes around the end of each line."""
    ends = [match.end() for match in re.finditer(rb"\n", text)]
    edges = {end + near for end in ends for near in (-2, -1, 0, 1)}
    return sorted(
        at for at in edges | {*range(1, len(text), round(1 / share))} if 0 < at < len(text)
    )


@at_a_fortieth
@pytest.mark.parametrize("write", [logs.as_csv, logs.as_chat_completions], ids=["csv", "jsonl"])
def test_a_file_cut_anywhere_is_the_same_log(write: Callable[..., bytes], share: float) -> None:
    text = write(_log(9)[:12])
    whole = from_chunks(read_chunks(BytesIO(text)))
    for at in _cuts(text, share):
        log = from_chunks(read_chunks(Torn(text, at)))
        assert log.frame.equals(whole.frame), at
    expected = detectors.audit(whole).to_json()
    for chunk_bytes in range(1, len(text), round(97 / share)):
        log = from_chunks(read_chunks(BytesIO(text), chunk_bytes=chunk_bytes))
        assert log.frame.equals(whole.frame), chunk_bytes
        if chunk_bytes == 1 or share == 1.0:
            assert detectors.audit(log).to_json() == expected, chunk_bytes


@at_a_fortieth
@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_files_of_parquet_cut_anywhere_give_the_same_report(
    engine: str, share: float, tmp_path: Path
) -> None:
    frame = as_polars(_log(9)[:24])
    expected = detectors.audit(frame).to_json()
    for row in range(1, frame.height, round(1 / share)):
        frame[:row].write_parquet(tmp_path / "a.parquet")
        frame[row:].write_parquet(tmp_path / "b.parquet")
        report = detectors.audit(str(tmp_path / "*.parquet"), engine=engine)
        assert report.to_json() == expected, row


def _write_parts(frame: pl.DataFrame, folder: Path) -> str:
    """Write several files of Parquet; return their pattern."""
    for number, part in enumerate(frame.iter_slices(100)):
        part.write_parquet(folder / f"{number}.parquet")
    return str(folder / "*.parquet")


@NEEDS_JAVA
@pytest.mark.stress
def test_spark_reads_files_of_parquet_too(tmp_path: Path) -> None:
    """By default, Spark reads an account's files of Parquet in `test_spark_windows.py`."""
    spark()
    calls = as_polars(_log(16))
    frame = pl.concat([calls, WITH_NEW_COLUMNS.select(calls.columns)])
    report = detectors.audit(_write_parts(frame, tmp_path), engine="pyspark")
    assert report.to_json() == detectors.audit(frame).to_json()
