"""Hashes by level as numbers."""

from collections.abc import Sequence
from itertools import count, cycle, islice

import polars as pl
import pytest

from detectors.engine import levels as level_numbers
from detectors.engine.levels import LEVEL_COLUMNS, number_lists, number_texts
from detectors.formats.columns import HASHES
from tests.cases import each_case

FIRST, LAST, NEXT_TO_LAST = "0" * 16, "f" * 16, "f" * 15 + "e"


def _lists(*rows: Sequence[str | None] | None) -> pl.DataFrame:
    return number_lists(pl.DataFrame({HASHES: pl.Series(rows, dtype=pl.List(pl.String))}))


def test_numbers_are_in_order_of_hashes_and_of_lists_and_texts_alike() -> None:
    hashes = [FIRST, "0" * 15 + "1", "9" * 16, "a" * 16, NEXT_TO_LAST]
    numbered = _lists(*([each, FIRST] for each in hashes), [LAST], [], None)
    assert numbered[HASHES].to_list() == [True] * 7 + [None]
    first = numbered["prefix"].to_list()
    assert first[:5] == sorted({*first[:5]} - {0}) != first[5:]
    assert first[4:] == [first[4], first[4], 0, 0]  # the last two of all hashes are one
    assert numbered["prefix_2"].to_list() == [1] * 5 + [0] * 3
    assert numbered.columns == [HASHES, *LEVEL_COLUMNS[:2]]
    texts = [each + FIRST for each in hashes] + [LAST, "", ""]
    assert number_texts(pl.DataFrame({HASHES: texts})).equals(numbered.drop(HASHES))


@each_case(
    "levels",
    [
        [FIRST, None],
        ["A" * 16],
        ["+" + "a" * 15],
        ["a" * 15],
        [FIRST, "g" * 16],
        ["a" * 15 + " "],
        [FIRST] * 14,
    ],
)
def test_a_list_with_anything_else_is_invalid(levels: list[str | None]) -> None:
    assert _lists([LAST], levels, [FIRST])[HASHES].to_list() == [True, False, True]


@each_case("sizes", [(3,), (0, 1, 2, 13), (1, None, 14)])
def test_numbers_of_many_lists_are_those_of_their_texts(
    sizes: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level_numbers, "_ROWS", 1_000)
    digits = (f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" for number in count())
    rows = [
        None if size is None else [*islice(digits, size)]
        for size in islice(cycle(sizes), 2_003)  # more than are read at a time
    ]
    rows[1] = ["a" * 15 + "!"]
    numbered = _lists(*rows)
    valid = [None if row is None else len(row) <= 13 for row in rows]
    assert numbered[HASHES].to_list() == [valid[0], False, *valid[2:]]
    rows[1] = []
    for level, name in enumerate(numbered.columns[1:]):
        expected = [int(row[level], 16) + 1 if row and level < len(row) else 0 for row in rows]
        assert numbered[name].to_list() == expected
