"""The further fields of a record's second version, in frames of every library and of the rules."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import detectors
from detectors.contract import UNITS
from detectors.engine import fetch
from detectors.engine.levels import LEVEL_COLUMNS
from detectors.formats.columns import OF_SOURCE
from detectors.frames import CALLS, OPTIONAL_CALLS, read, read_log, write_log
from detectors.frames.sources import checked_calls, place_together
from detectors.frames.usage_log import to_bytes
from detectors.prices.book import PriceBook
from detectors.prices.calls import OPTIONAL_CALL_COLUMNS, read_labels
from detectors.prices.table import Cells
from detectors.report.part import Job, open_part
from tests.detectors.formats.test_record_v2 import FULL_V2, IN_COLUMNS, NEW, TOO_MUCH, in_table
from tests.detectors.inputs.frames import INPUTS, LOCAL_INPUTS, SPARK_UNDER_STRESS
from tests.worker.support.promises import sampled

FIRST = datetime(2026, 11, 2, tzinfo=UTC)
PLAIN: dict[str, Any] = {
    "ts": FIRST,
    "provider": "openai",
    "model": "gpt-5.4",
    "prompt_tokens": 10,
    "completion_tokens": 2,
}
ROWS: list[dict[str, Any]] = [
    PLAIN,
    FULL_V2 | {"ts": FIRST + timedelta(seconds=1)},
    PLAIN | {"session_id": "chat-2", "prefix_hash_16k": "C" * 64, "status": "ok"},
]
SCHEMA = dict(CALLS) | dict(OPTIONAL_CALLS)
SCHEMA_V2 = {name: SCHEMA[name] for name in in_table(FULL_V2)}
FRAME = pl.DataFrame([in_table(row) for row in ROWS], SCHEMA_V2)
KEPT = {name for name in SCHEMA if name not in UNITS or name in SCHEMA_V2}


def rule_calls(source: Any) -> pl.DataFrame:
    """Return the frame that the rules read."""
    calls = checked_calls(read(source).frame)
    cells = Cells.of(read_labels(calls), PriceBook())
    opened = open_part([calls], Job(cells=cells, thresholds=detectors.Thresholds()))
    return opened.priced.arrange([(0, 2**62)]).read().collect()


@pytest.mark.parametrize("library", LOCAL_INPUTS)
def test_a_frame_with_the_new_columns_is_the_same_log(library: str) -> None:
    log = read(INPUTS[library](FRAME))
    key = ["ts", "completion_tokens", "session_id"]
    assert log.frame.sort(key).equals(read(ROWS).frame.sort(key))
    kept = KEPT - set(OF_SOURCE)
    assert log.frame.schema == {name: SCHEMA[name] for name in SCHEMA if name in kept}


@pytest.mark.parametrize("library", SPARK_UNDER_STRESS)
def test_the_rules_see_the_new_columns(library: str) -> None:
    further = {*LEVEL_COLUMNS[2:]} - {"prefix_5", "prefix_9"}
    absent = (set(UNITS) - KEPT) | set(OF_SOURCE) | further
    names = [*(name for name in OPTIONAL_CALL_COLUMNS if name not in absent), "prompt_tokens"]
    frame = FRAME.with_columns(pl.lit("metered").alias("billing"))  # others are no rule's
    calls = rule_calls(INPUTS[library](frame)).sort("number").select(names)
    values = {name: IN_COLUMNS[name] for name in names if name in IN_COLUMNS and name != "billing"}
    assert {name: calls[name][2] for name in values} == values
    assert calls["session"].rank("dense").to_list() == [1, 3, 2]
    assert calls["prefix_5"].n_unique() == 3
    assert calls["status"].to_list() == ["", "ok", "cancelled"]
    assert calls["latency_ms"].to_list() == [-1.0, -1.0, 12.5]
    assert calls["session"][0] == calls["prefix_9"][0] == 0


@pytest.mark.parametrize("library", sampled(LOCAL_INPUTS, 2))
def test_columns_without_a_value_cost_nothing(library: str) -> None:
    plain = FRAME.head(1)
    assert set(rule_calls(INPUTS[library](plain)).columns).isdisjoint(OPTIONAL_CALL_COLUMNS)
    assert read(INPUTS[library](plain)).frame.schema == CALLS


@pytest.mark.parametrize("library", LOCAL_INPUTS)
def test_a_part_over_its_total_is_an_invalid_row(library: str) -> None:
    """Each wrong row comes once, then twice and so on: its reason is counted for it alone."""
    wrong = [
        FULL_V2 | values | {"ts": FIRST}
        for times, (values, _) in enumerate(TOO_MUCH, 1)
        for _ in range(times)
    ]
    units = {unit for row in wrong for unit in row["units"]}
    schema = SCHEMA_V2 | {unit: SCHEMA[unit] for unit in units}
    log = read(INPUTS[library](pl.DataFrame(list(map(in_table, [*ROWS, *wrong])), schema)))
    assert log.frame.height == len(ROWS)
    expected = {reason: times for times, (_, reason) in enumerate(TOO_MUCH, 1)}
    assert log.invalid.reasons == expected


@pytest.mark.parametrize("library", SPARK_UNDER_STRESS)
def test_levels_may_be_lists_texts_and_bytes(library: str) -> None:
    levels = [NEW["prefix_hashes"], None, ["4" * 16] * 13, [], ["5" * 16, None], ["6" * 15], ["É"]]
    plain = pl.DataFrame([PLAIN | {"completion_tokens": row} for row, _ in enumerate(levels)])
    lists = plain.with_columns(pl.Series("prefix_hashes", levels, pl.List(pl.String)))
    texts = lists.with_columns(pl.col("prefix_hashes").list.join(" ", ignore_nulls=False))
    reason = "prefix_hashes must be 1 to 13 strings of 16 lowercase hexadecimal digits"
    kept = ["".join(each or ()) for each in levels[:4]]
    log = read(INPUTS[library](lists)).frame.sort("completion_tokens")
    assert log["prefix_hashes"].to_list() == kept
    assert read(INPUTS[library](lists)).invalid.reasons == {reason: 3}
    assert read(INPUTS[library](texts)).invalid.reasons == {reason: 2}
    stored = to_bytes(log).drop("latency_ms")
    assert stored["prefix_hashes"].dtype == pl.Binary
    again = read(INPUTS[library](stored)).frame.sort("completion_tokens")
    assert again["prefix_hashes"].to_list() == kept


@pytest.mark.parametrize("library", sampled(LOCAL_INPUTS, len(LOCAL_INPUTS)))
def test_a_frame_may_have_every_unit_but_a_row_at_most_sixteen(library: str) -> None:
    """All units of a frame need more digits of problems than a number has."""
    tokens = [f"{way}_{kind}_tokens" for way in ("input", "output") for kind in ("text", "video")]
    tokens += ["input_tool_tokens", "output_citation_tokens"]
    others = [name for name in UNITS if not name.endswith("_tokens")]
    many = dict.fromkeys(UNITS, 0) | dict.fromkeys([*tokens, *others], 1)
    many["output_audio_seconds"] = 0
    few = many | {"input_document_pages": 0}
    assert sum(few.values()) == 16
    rows = [PLAIN | few, PLAIN | many, PLAIN | few | {"input_pixels": -1}, PLAIN | {"ts": None}]
    schema = {name: SCHEMA[name] for name in (*PLAIN, *UNITS)}
    log = read(INPUTS[library](pl.DataFrame(rows, schema)))
    assert (log.frame.height, log.invalid.count) == (1, 3)
    assert set(log.invalid.reasons) == {
        "units must be an object of at most 16 numbers, by the price book's names of units",
        "units.input_pixels must be an integer from 0 to 1,000,000,000,000",
        "missing field ts",
    }


def test_rows_that_differ_in_a_new_field_are_two_calls() -> None:
    rows = [PLAIN | {"request_id": "r", "web_searches": count} for count in (1, 1, 2)]
    report = detectors.audit(rows)
    assert (report.audit.records, report.audit.echoes_dropped) == (2, 1)


def test_the_parquet_frame_has_the_new_columns(tmp_path: Path) -> None:
    for log in (read(ROWS), read(ROWS[:1])):
        write_log(log, tmp_path / "frame.parquet")
        assert read_log(tmp_path / "frame.parquet").frame.equals(log.frame)


def test_chunks_and_logs_with_other_columns_are_joined() -> None:
    logs = [read(ROWS[:1]), read(ROWS)]
    calls = place_together([log.frame for log in logs])
    assert KEPT - {*OF_SOURCE, "ts"} <= set(calls.collect_schema().names())
    assert [row["log"] for row in fetch(calls)] == [0, 1, 1, 1]
    alone = [detectors.audit(log).to_json() for log in logs]
    assert [report.to_json() for report in detectors.audit_many(logs)] == alone
