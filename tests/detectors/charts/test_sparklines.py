"""The line that shows a trend in a table's cell."""

from decimal import Decimal

from detectors.charts import sparkline
from tests.cases import each_case


@each_case(
    ("amounts", "outline"),
    [((), ""), ((0, 4, 2), "M0 19L50 1L100 10"), ((3,), "M0 1L100 1"), ((0, 0), "M0 19L100 19")],
)
def test_a_line_goes_from_the_first_amount_to_the_last(
    amounts: tuple[int, ...], outline: str
) -> None:
    assert sparkline([Decimal(each) for each in amounts]) == outline
