"""The values of a chart's columns, which are written without a template."""

from datetime import date, timedelta
from decimal import Decimal

from markupsafe import Markup

from detectors.charts import Marks, stacked_columns
from service.reports.chart_columns import print_columns

FIRST = date(2026, 3, 1)
DAYS = (FIRST, FIRST + timedelta(days=1))
MARKS = {0: Markup("<b>x</b>"), 8: Markup("<b>others</b>")}


def test_each_column_has_its_values_and_a_row_with_all_series() -> None:
    amounts: dict[date, dict[str | None, Decimal]] = {
        FIRST: {"a": Decimal(2), None: Decimal("0.5")},
        DAYS[1]: {"a": Decimal("0.00001")},
    }
    chart = stacked_columns(amounts, {"a": "<a>", None: "others"}, DAYS)
    printed = print_columns(chart, MARKS, lambda first, last: f"/spend?from={first}&to={last}")
    first, second = printed.items.split("\n")
    assert first == (
        '<li data-from="2026-03-01" data-to="2026-03-01">'
        '<a href="/spend?from=2026-03-01&amp;to=2026-03-01" aria-label="Mar 1, 2026: $2.50"></a>'
        '<div class="values"><b>Mar 1, 2026</b> <span class="sum">$2.50</span>'
        '<span><b>x</b></span><span class="sum">$2.00</span>'
        '<span><b>others</b></span><span class="sum">$0.50</span></div></li>'
    )
    assert '<div class="values late">' in second
    assert '<span class="sum">&lt; $0.0001</span>' in second
    assert printed.rows == (
        "<tr><td>Mar 1, 2026</td><td>$2.50</td><td>$2.00</td><td>$0.50</td></tr>"
        "<tr><td>Mar 2, 2026</td><td>&lt; $0.0001</td><td>&lt; $0.0001</td><td>$0.00</td></tr>"
    )


def test_what_happened_on_a_day_is_said_and_never_read_as_markup() -> None:
    marks = Marks(reasons={FIRST: 'Unusual: "<a>"'}, changes={FIRST: ["<script>"]}, today=FIRST)
    chart = stacked_columns({FIRST: {"a": Decimal(1)}}, {"a": "a"}, (FIRST, FIRST), marks)
    item = print_columns(chart, MARKS, None).items
    assert item.startswith('<li tabindex="0" data-from="2026-03-01" data-to="2026-03-01"><i class=')
    assert "<b>Mar 1, 2026 (so far)</b>" in item
    reason = "<em>Unusual: &#34;&lt;a&gt;&#34;</em>"
    assert item.endswith(f"{reason}<em>&lt;script&gt;</em></div></li>")
