"""Rows of small tables found by label, and calls put in order, without joins and full sorts."""

import polars as pl
import pytest

from detectors.engine import lookup, numbering
from detectors.engine.neighbors import filter_near
from detectors.engine.numbering import argsort, number_rows
from detectors.report.counting.counts import collect_tables, count_calls, days_of

# The columns have different numbers of labels, and every pair of them has a row.
TABLE = pl.DataFrame({"route": list("baabab"), "model": list("xyxyzz")})
NEVER = "never seen before"
CALLS = pl.DataFrame(
    {"route": ["a", "c", "b", "a", "b", "a"], "model": ["x", "x", "x", "y", NEVER, NEVER]}
)
ROWS = [2, lookup.NO_ROW, 0, 1, lookup.NO_ROW, lookup.NO_ROW]
CATEGORIES = pl.Schema({"route": pl.Categorical(), "model": pl.Categorical()})
TEXTS = pl.Schema({"route": pl.String(), "model": pl.String()})


@pytest.mark.parametrize("most", [lookup._MOST_POSITIONS, 2], ids=["by position", "by join"])
@pytest.mark.parametrize("types", [CATEGORIES, TEXTS], ids=["categories", "texts"])
def test_rows_are_found_by_all_labels(
    types: pl.Schema, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_MOST_POSITIONS", most)
    find = lookup.row_finder(TABLE.cast(types))
    assert find(CALLS.cast(types).to_struct()).to_list() == ROWS
    assert find(CALLS.cast(types).clear().to_struct()).to_list() == []


@pytest.mark.parametrize("types", [CATEGORIES, TEXTS], ids=["categories", "texts"])
def test_a_table_without_rows_has_none(types: pl.Schema) -> None:
    find = lookup.row_finder(TABLE.cast(types).clear())
    assert find(CALLS.cast(types).to_struct()).to_list() == [lookup.NO_ROW] * len(ROWS)


def test_calls_in_time_order_are_sorted_as_any_others_are() -> None:
    order = ["group", "at_us", "request_id", "prompt_tokens", "completion_tokens"]
    calls = pl.DataFrame(
        {
            "group": [1, 0, 1, 0, 1, 0, 1, 1],
            "at_us": [5, 5, 5, 5, 5, 6, 7, 7],
            "request_id": ["c", "b", "a", "b", "a", "z", "x", "y"],
            "prompt_tokens": [3, 2, 2, 1, 2, 3, 3, 3],
            "completion_tokens": [3, 1, 2, 1, 1, 3, 3, 3],
        }
    )
    rows = argsort(calls, order)
    assert calls[rows].equals(calls.sort(order))
    untied = calls.unique("at_us", keep="first", maintain_order=True)
    assert untied[argsort(untied, order)].equals(untied.sort(order))
    shuffled = calls.sample(fraction=1.0, shuffle=True, seed=2)
    assert shuffled[argsort(shuffled, order)].equals(calls.sort(order))


@pytest.mark.parametrize(
    ("request_id", "falls"),
    [
        (pl.format("call-{}", pl.col("row").cast(pl.String).str.zfill(5)), range(1)),
        (pl.format("call-{}", pl.col("row")), range(1, 10)),  # call-10 is before call-9
        (pl.format("call-{}", pl.col("row").hash(seed=1)), range(5_000, 20_000)),
    ],
    ids=["padded", "counted", "random"],
)
def test_calls_of_one_time_are_sorted_by_request(request_id: pl.Expr, falls: range) -> None:
    order = ["group", "at_us", "request_id"]
    rows = pl.int_range(20_000, eager=True).alias("row").to_frame()
    row = pl.col("row")
    group, at = (row % 5 % 3).alias("group"), (row // 8).alias("at_us")
    calls = rows.select(group, at, request_id.alias("request_id"))
    in_parts = pl.concat([calls[:7_001], calls[7_001:]], rechunk=False)
    assert len(numbering._find_falls(in_parts, "at_us", "request_id")) in falls
    are_few = numbering._find_few_falls(in_parts, "at_us", "request_id") is not None
    assert are_few == (falls.stop < 20)
    assert in_parts[argsort(in_parts, order)].equals(calls.sort(order))


@pytest.mark.parametrize("is_sorted", [True, False])
def test_seconds_with_a_call_are_counted(is_sorted: bool) -> None:
    """A day begins in another second than the one before ends in."""
    seconds = [0.0, 0.25, 0.999999, 1.0, 3.0, 3.5, 86_399.9, 86_400.0, 86_400.1, 200_000.0]
    at_us = [round(1_767_225_600e6 + second * 1e6) for second in seconds]
    counts = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
    calls = pl.DataFrame({"at_us": at_us, "prefix_hash": "", **dict.fromkeys(counts, 1)})
    labels = dict.fromkeys(("provider", "model"), pl.lit("any"))
    in_order = (calls if is_sorted else calls.reverse()).lazy()
    days = days_of(collect_tables(count_calls(in_order.with_columns(**labels))))
    assert [(day["calls"], day["seconds"]) for day in days] == [(7, 4), (2, 1), (1, 1)]


def test_counts_that_are_narrowed_have_64_bits_when_they_are_read() -> None:
    calls = pl.DataFrame({"group": [1, 0], "prompt_tokens": [2**31 - 1, 0], "at_us": [2**50, 0]})
    names = calls.columns
    found = number_rows([calls], "number", names, names).read().select(names)
    assert found.collect_schema() == calls.schema
    assert found.select(pl.sum_horizontal(names)).collect().to_series().to_list() == [
        0,
        2**50 + 2**31,
    ]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_columns_with_one_value_are_kept(rows: int) -> None:
    """A log of many calls without known prices has none to sort."""
    calls = pl.DataFrame({"group": [2, 0, 1], "cached_tokens": 7, "in_window": True})[:rows]
    found = number_rows([calls], "number", calls.columns, calls.columns).read()
    assert found.select(calls.columns).collect().equals(calls.sort("group"))


def test_each_column_is_searched_once_for_its_least_value(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = list[str]()
    least = pl.Series.min

    def count(column: pl.Series) -> object:
        searched.append(column.name)
        return least(column)

    monkeypatch.setattr(pl.Series, "min", count)
    calls = pl.DataFrame({"group": [2, 0, 1], "cached_tokens": 7, "in_window": True})
    number_rows([calls], "number", calls.columns, calls.columns)
    assert sorted(searched) == sorted(calls.columns)


@pytest.mark.parametrize(("most", "kept"), [(1, [4, 5]), (2, [0, 2, 4, 5, 7])])
def test_calls_without_a_pair_nearby_are_dropped(most: int, kept: list[int]) -> None:
    """A call that is equal to a pair stays."""
    rows = pl.DataFrame({"a": [1, 2, 1, -4, 2**40, 2**40, 5, 1, 2], "b": 7})
    near = filter_near(rows.with_row_index("number").lazy(), ["a", "b"], most)
    assert near.collect()["number"].sort().to_list() == kept
