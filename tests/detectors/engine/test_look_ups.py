"""The quick ways to look up, to mark and to compare rows give what the plain ways give."""

from random import Random
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from detectors.engine import frames, with_texts
from detectors.frames import table_columns

_CALLS = 500
_TIMES = [1_790_000_000, 1_790_000_001, 5, 9_000_000_000, None]
_TEXTS = ["a", "", "bé", "x" * 129, "x" * 3_000, "a\nb", "\x7f", None]
_COUNTS = [0, 1, 2**31, -1, 10**15, None]


@pytest.mark.parametrize("most", [2**22, 3])
def test_calls_are_looked_up_by_number_as_they_are_joined(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "_MOST_NUMBERS", most)
    for seed in range(20):
        random = Random(seed)
        calls = pl.DataFrame({"number": random.choices(range(40), k=_CALLS)}).with_row_index("at")
        numbers = random.sample(range(40), seed)
        table = pl.DataFrame(
            {"number": numbers, "name": [f"n{number}" for number in numbers]},
            schema={"number": pl.Int64, "name": pl.String},
        )
        found = frames.join_numbered(calls.lazy(), table.lazy(), "number").collect()
        plain = calls.join(table, on="number", how="inner", maintain_order="left")
        assert_frame_equal(found, plain, check_column_order=False)


def test_a_row_that_is_there_twice_goes_wherever_it_stands_among_those_of_its_time() -> None:
    for seed in range(200):
        random = Random(seed)
        times = sorted(random.choices(range(random.choice([5, 60, 5_000])), k=60))
        rows = [(at, random.choice(["", *"abcdefgh"]), random.randrange(2)) for at in times]
        if seed % 2:  # an order by anything but time
            random.shuffle(rows)
        frame = pl.DataFrame(rows, ["at_us", "request_id", "tokens"], orient="row")
        kept = dict.fromkeys((row, number if not row[1] else 0) for number, row in enumerate(rows))
        found = frames.drop_duplicate_rows(frame.lazy())
        assert found.rows() == [row for row, _ in kept]


def test_columns_that_are_fine_as_a_whole_have_the_problems_of_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(60):
        random = Random(seed)

        def drawn(
            values: list[Any], random: Random = random, kind: pl.DataType | None = None
        ) -> pl.Series:
            good = random.sample(values, random.choice([1, 2, len(values)]))
            return pl.Series(random.choices(good, k=30), dtype=kind)

        text = random.choice([pl.String(), pl.Categorical()])
        frame = pl.DataFrame(
            {
                "ts": drawn(_TIMES, kind=pl.Int64()),
                "provider": drawn(["openai", "anthropic", "Open AI", None], kind=text),
                "model": drawn(_TEXTS, kind=text),
                "prompt_tokens": drawn(_COUNTS, kind=pl.Int64()),
                "completion_tokens": drawn(_COUNTS, kind=pl.Int64()),
                "request_id": drawn(_TEXTS, kind=pl.String()),
                "tag": drawn(_TEXTS, kind=text),
            }
        )
        found = table_columns.with_problems(frame.lazy()).collect()
        with monkeypatch.context() as patch:
            patch.setattr(table_columns, "_is_fine", lambda frame, name: False)
            by_row = table_columns.with_problems(frame.lazy()).collect()
        # Categories that are fine stay categories.
        assert_frame_equal(with_texts(found), with_texts(by_row))
