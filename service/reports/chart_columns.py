"""The values of a chart's columns as HTML: many small parts, which a template writes slowly."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from markupsafe import Markup, escape

from detectors.charts.columns import Column, Columns

_DayLink = Callable[[date, date], str]


class PrintedColumns(NamedTuple):
    """The items beside a chart's columns, and the rows of the table with its data."""

    items: Markup
    rows: Markup


def print_columns(
    chart: Columns, marks: Mapping[int, str], day_link: _DayLink | None
) -> PrintedColumns:
    """Print a chart's values; `marks` are the markup of its series, by kind."""
    names = {kind: f'<span>{mark}</span><span class="sum">' for kind, mark in marks.items()}
    listed = [series.kind for series in chart.listed]

    def write(amount: Decimal) -> str:
        # The only sign in an amount that HTML needs escaped; `escape` would take twice as long.
        return chart.write(amount).replace("<", "&lt;")

    none, items, rows = write(Decimal(0)), [], []
    for column in chart.columns:
        total = write(column.total)
        amounts = {series.kind: write(amount) for series, amount in column.parts}
        values = "".join(f"{names[kind]}{amount}</span>" for kind, amount in amounts.items())
        items.append("".join(_item(column, total, values, day_link)))
        cells = (escape(column.label), total, *(amounts.get(kind, none) for kind in listed))
        rows.append(f"<tr><td>{'</td><td>'.join(cells)}</td></tr>")
    return PrintedColumns(Markup("\n".join(items)), Markup("".join(rows)))  # noqa: S704 - escaped


def _item(column: Column, total: str, values: str, day_link: _DayLink | None) -> Iterator[str]:
    label, reason = escape(column.label), escape(column.reason)
    href = day_link(*column.days) if day_link and column.days else ""
    yield "<li" if href else '<li tabindex="0"'
    if column.days:
        yield f' data-from="{column.days[0]}" data-to="{column.days[1]}"'
    yield '><i class="mark"></i>' if reason else ">"
    if href:
        what = f"{label}: {total}. {reason}" if reason else f"{label}: {total}"
        yield f'<a href="{escape(href)}" aria-label="{what}"></a>'
    yield f'<div class="values{" late" if column.is_late else ""}"><b>{label}'
    yield f'{" (so far)" if column.is_open else ""}</b> <span class="sum">{total}</span>{values}'
    yield from (f"<em>{escape(words)}</em>" for words in (reason, *column.changes) if words)
    yield "</div></li>"
