"""Callers' own dataframes of every library, checked like any other source."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from detectors.engine import categories
from detectors.errors import ContractError, UnreadableLogError
from detectors.frames import CALLS, read, tables
from tests.cases import each_case
from tests.detectors.inputs.frames import INPUTS, LOCAL_INPUTS

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {
        "ts": FIRST + timedelta(hours=n),
        "provider": "openai",
        "model": "gpt-5.4",
        "prompt_tokens": n,
        "completion_tokens": 2,
        "cached_tokens": None if n % 2 else 3,
        "latency_ms": None if n % 3 else 1.5,
        "tag": None if n % 2 else "support",
        "prefix_hash": "aB" * 32 if n % 2 else None,
    }
    for n in range(10)
]
FRAME = pl.DataFrame(ROWS)


LIBRARIES = [*LOCAL_INPUTS, "pandas arrow", "arrow"]


@each_case("library", LIBRARIES)
def test_a_frame_of_any_library_is_the_same_log(library: str) -> None:
    log = read(INPUTS[library](FRAME))
    assert log.frame.equals(read(ROWS).frame)
    assert log.frame.schema == CALLS
    assert (log.rows, log.invalid.count) == (10, 0)


@pytest.mark.parametrize("rows", [1, 3, 10])
def test_a_frame_in_parts_with_categories_is_the_same_log(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part whose labels are all fine is checked by label, and others row by row."""
    wrong = {2: "provider", 5: "tag", 8: "model"}
    bad = [row | {wrong[n]: "two\nlines"} if n in wrong else row for n, row in enumerate(ROWS)]
    bad[9]["provider"] = "OpenAI"  # is written in lower case
    frame = pl.DataFrame(bad)
    alone = read(frame)
    monkeypatch.setattr(tables, "_PART_ROWS", rows)
    monkeypatch.setattr(tables, "_MANY_ROWS", 0)
    monkeypatch.setattr(categories, "MOST_CATEGORIES", 2)
    parts = read(frame)
    assert parts.frame.equals(alone.frame)
    assert parts.frame.schema == CALLS
    assert parts.invalid == alone.invalid
    assert alone.invalid.count == len(wrong)


@each_case("library", LIBRARIES)
def test_a_frame_may_say_at_which_tier_a_call_was_billed(library: str) -> None:
    named = ["batch", "flex", "priority", "fast", "", None, "default", "scale", "a b", "Batch"]
    frame = FRAME.with_columns(pl.Series("service_tier", named))
    kept = read(INPUTS[library](frame)).frame
    tiers = ["batch", "flex", "priority", "fast", *[""] * 5, "batch"]
    assert kept["service_tier"].to_list() == tiers
    unknown = [*[""] * 7, "service_tier.scale", "service_tier", ""]
    assert kept["unknown_fields"].to_list() == unknown
    again = kept.drop("unknown_fields")
    assert read(INPUTS[library](again)).frame.equals(again)


@each_case("library", LIBRARIES)
def test_unknown_columns_break_the_contract(library: str) -> None:
    frame = FRAME.with_columns(content=pl.lit("CANARY")).rename({"tag": "CANARY the customer"})
    with pytest.raises(ContractError) as caught:
        read(INPUTS[library](frame))
    message = str(caught.value)
    assert message.startswith("Contains fields we never accept (column 8, content) in the frame")


def test_columns_of_another_tool_are_answered_with_what_to_rename() -> None:
    names = {"ts": "created", "model": "Model_Name", "prompt_tokens": "input_tokens"}
    frame = FRAME.select("ts", "model", "prompt_tokens", "completion_tokens").rename(names)
    frame = frame.with_columns(cost=pl.lit(0.1), **{"a b": pl.lit("CANARY")})
    with pytest.raises(ContractError) as caught:
        read(frame)
    renamed = {"created": "ts", "Model_Name": "model", "input_tokens": "prompt_tokens"}
    assert str(caught.value) == (
        f"These columns aren't those of a usage record. To read them, rename {renamed}, drop "
        "['cost'], drop column 6 and add a column provider."
    )
    read(frame.rename(renamed).drop("cost", "a b").with_columns(provider=pl.lit("openai")))


def test_columns_that_only_need_other_names_are_named_alone() -> None:
    with pytest.raises(ContractError, match=r"To read them, rename \{'created': 'ts'\}\.$"):
        read(FRAME.rename({"ts": "created"}))
    with pytest.raises(ContractError, match="fields we never accept"):  # what are the counts?
        read(FRAME.rename({"ts": "created", "prompt_tokens": "some_count"}))
    # A name with a space is known if it is a field's, and an ID may be a number there.
    titled = {"ts": "Timestamp", "prompt_tokens": "Input Tokens", "request_id": "id"}
    given = FRAME.with_columns(request_id=pl.lit("r-1")).rename(titled)
    with pytest.raises(ContractError, match="Give request_id as text") as caught:
        read(given)
    assert "'Input Tokens': 'prompt_tokens'" in str(caught.value)


def test_columns_may_be_in_any_order_and_missing_ones_are_named() -> None:
    with pytest.raises(UnreadableLogError, match="Missing: provider, model"):
        read(FRAME.drop("provider", "model"))
    with pytest.raises(UnreadableLogError, match="needs a different name"):
        read(FRAME.with_columns(Model=pl.lit("m")))
    # Columns may be in any order and case.
    frame = FRAME.select(reversed(FRAME.columns)).rename(str.upper)
    assert read(frame).frame.equals(read(FRAME).frame)


@each_case(
    "column",
    [
        pl.col("ts").dt.replace_time_zone(None),
        pl.col("ts").dt.cast_time_unit("ns"),
        pl.col("ts").dt.convert_time_zone("Asia/Tokyo"),
        pl.col("ts").dt.epoch("s").alias("ts"),
        pl.col("ts").dt.epoch("s").cast(pl.Float64).alias("ts"),
        pl.col("ts").dt.to_string("%Y-%m-%d %H:%M").alias("ts"),
        pl.col("provider").cast(pl.Categorical),
        pl.col("tag").cast(pl.Enum(["support"])),
        pl.col("prompt_tokens").cast(pl.Float64),
        pl.col("prompt_tokens").cast(pl.UInt8),
        pl.col("prompt_tokens").cast(pl.Decimal(10, 2)),
        pl.col("cached_tokens").cast(pl.Float64).fill_null(float("nan")),
        pl.col("latency_ms").cast(pl.Float64).fill_null(float("nan")),
        pl.lit(None).alias("endpoint"),
        pl.lit(None, pl.Int64).alias("request_id"),
        pl.lit(None, pl.String).alias("declared_max_tokens"),
    ],
)
def test_columns_of_other_types_mean_the_same(column: pl.Expr) -> None:
    assert read(FRAME.with_columns(column)).frame.equals(read(FRAME).frame)


@each_case(
    ("name", "value"),
    [
        ("ts", None), ("ts", "soon"), ("ts", "1999-01-01"), ("ts", datetime(1999, 1, 1)),  # noqa: DTZ001
        ("ts", date(2026, 1, 1)), ("ts", True), ("ts", float("inf")),
        ("provider", None), ("provider", "Open AI"), ("provider", 5), ("provider", "openai\n"),
        ("model", None), ("model", ""), ("model", "a" * 201), ("model", 5), ("model", "a\x85"),
        ("prompt_tokens", None), ("prompt_tokens", -1), ("prompt_tokens", 10**12 + 1),
        ("prompt_tokens", 1.5), ("prompt_tokens", "5"), ("prompt_tokens", True),
        ("prompt_tokens", float("inf")), ("prompt_tokens", float("nan")),
        ("prompt_tokens", Decimal("1.5")), ("cached_tokens", 1.5), ("cached_tokens", "x"),
        ("tag", "a" * 201), ("tag", "a\x00"), ("tag", 5), ("prefix_hash", "g" * 64),
        ("prefix_hash", "a" * 64 + "\n"), ("latency_ms", -1.0), ("latency_ms", 2e9),
        ("latency_ms", "5"), ("latency_ms", float("inf")),
    ],
)  # fmt: skip
def test_a_bad_value_makes_the_row_invalid(name: str, value: Any) -> None:
    bad = FRAME[1:2].with_columns(pl.Series(name, [value]))
    good = FRAME[:1].with_columns(pl.Series(name, [None], bad.schema[name]))
    log = read(bad)
    assert (log.rows, log.invalid.count, log.frame.height) == (1, 1, 0)
    (row,) = log.invalid.first
    assert row.line == 1
    assert name in row.reason
    optional = name not in ("ts", "provider", "model", "prompt_tokens")
    both = read(pl.concat([good, bad]))
    assert (both.invalid.count, both.frame.height) == ((1, 1) if optional else (2, 0))


def test_bad_rows_are_listed_by_number_and_the_others_stay() -> None:
    frame = FRAME.with_columns(
        prompt_tokens=pl.when(pl.col("prompt_tokens") % 4 == 1).then(-1).otherwise(7)
    )
    log = read(frame)
    assert [row.line for row in log.invalid.first] == [2, 6, 10]
    assert log.frame.height == 7
    assert list(log.invalid.reasons.values()) == [3]


def test_all_columns_of_a_row_are_checked() -> None:
    frame = FRAME.select(pl.exclude("latency_ms")).with_columns(
        prompt_tokens=pl.lit(7.0),
        cached_tokens=pl.lit(Decimal("7.00")),
        completion_tokens=pl.lit(-1),
    )
    log = read(frame)
    reason = "completion_tokens must be an integer from 0 to 1,000,000,000,000"
    assert log.invalid.reasons == {reason: 10}
