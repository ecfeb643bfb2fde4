"""Calls whose source doesn't say whether the input has the cached tokens, up to the report."""

import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

import detectors
from detectors.contract import CallWindow, StoredRecord
from detectors.formats import Chunk, encode_chunk, encode_records, read_chunks, read_stored
from detectors.formats.columns import ASSUMED
from detectors.frames.usage_log import from_chunks
from detectors.report.account import windows
from detectors.report.account.call_files import merge_files, read_calls, write_calls
from detectors.report.account.imports import Terms
from detectors.scrub.scrubber import Scrubber
from detectors.wording.quality import measures, warnings
from tests.cases import each_case
from tests.detectors.formats.adapters.source_rows import LANGFUSE

UNCLEAR = {"input": 40, "input_cached_tokens": 30, "output": 12}
KNOWN: list[dict[str, Any]] = [
    {"input": 40, "input_cached_tokens": 30, "output": 12, "total": 52},  # within
    {"input": 10, "input_cached_tokens": 30, "output": 12, "total": 52},  # beside
    {"input": 40, "output": 12},
    {"promptTokens": 40, "completionTokens": 12},
]
TERMS = Terms(detectors.PriceBook(), None, detectors.Thresholds())


def _exported(*usages: dict[str, Any]) -> bytes:
    rows = [
        {**LANGFUSE, "id": f"call-{at}", "usageDetails": usage} for at, usage in enumerate(usages)
    ]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _read(text: bytes) -> Chunk:
    [chunk] = [chunk for chunk in read_chunks(BytesIO(text)) if chunk.columns["ts"]]
    return chunk


@each_case("usage", [UNCLEAR, {**UNCLEAR, "total": 82}])
def test_parts_that_an_exporter_may_have_counted_twice_are_assumed(usage: dict[str, Any]) -> None:
    columns = _read(_exported(usage, *KNOWN)).columns
    assert columns[ASSUMED] == [1, 0, 0, 0, 0]
    assert ASSUMED not in _read(_exported(*KNOWN)).columns


def test_it_is_known_after_scrub_and_in_stored_records() -> None:
    exported = _exported(UNCLEAR, KNOWN[0])
    chunk = _read(exported)
    scrubbed = _read(b"".join(Scrubber().read(BytesIO(exported))))
    assert scrubbed.columns[ASSUMED] == [1, 0]
    [stored] = read_stored(BytesIO(encode_chunk(chunk)))
    assert stored.columns == chunk.columns
    moment = datetime(2026, 9, 1, tzinfo=UTC)
    record = StoredRecord(ts=moment, provider="p", model="m", prompt_tokens=1, completion_tokens=1)
    assert ASSUMED.encode() not in encode_records([record])


def test_a_report_counts_them_and_says_so_and_others_stay_as_they_were() -> None:
    report = detectors.audit(from_chunks([_read(_exported(UNCLEAR, *KNOWN))]))
    assert json.loads(report.to_json())["data_quality"]["assumed_input_calls"] == 1
    assert [text for text in warnings(report) if text.startswith("For 1 call, we assumed")]
    assert ("Calls with assumed input tokens", "1") in measures(report)
    other = detectors.audit(from_chunks([_read(_exported(*KNOWN))]))
    assert "assumed_input_calls" not in json.loads(other.to_json())["data_quality"]
    assert not [text for text in warnings(other) if "we assumed" in text]
    assert "Calls with assumed input tokens" not in dict(measures(other))


def test_an_audit_of_the_account_counts_them_over_files_with_and_without_the_column(
    tmp_path: Path,
) -> None:
    files = []
    for at, usages in enumerate(([UNCLEAR, *KNOWN], KNOWN)):
        frame = from_chunks([_read(_exported(*usages))]).frame
        frame = frame.with_columns(pl.col("ts") + pl.duration(days=at))
        [merged] = merge_files([_imported(frame, tmp_path)], months_before=frame["ts"].dt.date()[0])
        files.append(tmp_path / f"{at}.parquet")
        with files[-1].open("wb") as file:
            write_calls(merged.frame, file)
    window = CallWindow(days=30, now=datetime(2100, 1, 1, tzinfo=UTC))
    report = windows.audit_window(files, window, TERMS).report
    assert report.data_quality is not None
    assert report.data_quality.assumed_input_calls == 1


def test_of_equal_calls_the_one_with_more_labels_is_kept_whatever_is_assumed(
    tmp_path: Path,
) -> None:
    frame = from_chunks([_read(_exported(UNCLEAR))]).frame
    certain = frame.with_columns(tag=pl.lit("refunds")).drop(ASSUMED)
    calls = [_imported(frame.with_columns(tag=pl.lit("")), tmp_path), _imported(certain, tmp_path)]
    [merged] = merge_files(calls, months_before=frame["ts"].dt.date()[0])
    assert (merged.frame["tag"].to_list(), merged.frame[ASSUMED].sum()) == (["refunds"], 0)


def _imported(frame: pl.DataFrame, folder: Path) -> pl.DataFrame:
    frame.write_parquet(folder / "import.parquet")
    return read_calls(folder / "import.parquet", "import")
