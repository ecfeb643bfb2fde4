"""The order of calls, and sums of dollars."""

from decimal import Decimal

import polars as pl

from detectors.engine.numbering import number_rows
from detectors.report.money import UNITS_PER_USD, collect_usd, rounded, sum_usd, usd
from tests.cases import each_case

ORDER = ["group", "at_us", "request_id", "prompt_tokens"]


def _numbered(rows: pl.DataFrame) -> list[tuple[int, ...]]:
    calls = number_rows([rows], "number", ORDER, ["place"]).read()
    return calls.select("number", "place").collect().rows()


def _rows(*rows: tuple[int, int, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=ORDER, orient="row").with_row_index("place")


def test_ties_in_time_are_broken_by_the_other_columns() -> None:
    rows = _rows((1, 5, "b", 1), (0, 9, "", 2), (1, 5, "", 7), (1, 5, "b", 0), (1, 4, "z", 3))
    assert _numbered(rows) == [(0, 1), (1, 4), (2, 2), (3, 3), (4, 0)]
    # Without ties the first two columns decide.
    assert _numbered(_rows((1, 5, "a", 1), (0, 9, "b", 2))) == [(0, 1), (1, 0)]
    # Numbers too large to be packed are sorted one by one.
    huge = 2**62
    rows = _rows((7, huge, "", 1), (7, -huge, "", 2), (3, 0, "b", 3), (3, 0, "a", 4))
    assert _numbered(rows) == [(0, 3), (1, 2), (2, 1), (3, 0)]
    # Nothing has no order.
    assert _numbered(_rows().cast({"group": pl.Int64, "at_us": pl.Int64})) == []


@each_case(
    "amount",
    ["0", "1e-18", "-1e-18", "5.5e-18", "1234567890.5", "-0.25", "1e9", "3.3e-7", "9.3", "-9.3"],
)
def test_dollars_are_summed_to_the_last_unit(amount: str) -> None:
    calls = pl.LazyFrame({"cost_usd": [float(amount)] * 1_000})
    expected = 1_000 * round(float(amount) * UNITS_PER_USD)
    for sums in (sum_usd(calls, "cost_usd").collect(), collect_usd(calls, "cost_usd")):
        (row,) = sums.rows(named=True)
        assert usd(row, "cost_usd") * UNITS_PER_USD == expected


def test_dollars_are_rounded_to_nine_decimals_without_a_negative_zero() -> None:
    assert str(rounded(Decimal("-1e-18"))) == "0"
    assert str(rounded(Decimal("1.2345678905"))) == "1.234567890"
