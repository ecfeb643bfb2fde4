"""The usage events that Cursor's dashboard exports as CSV.

Those of somebody's own key are on another bill.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from service.connections.cursor.reports import lines_of
from service.connections.exports import Cells, Export, count_of, day_of, pick, signs, usd_of
from service.connections.provider import TotalsLine, clean

_NO_AMOUNT: Final = ("", "-", "free", "included")


def _read(cells: Cells) -> Iterator[TotalsLine]:
    kind = pick(cells, "Kind").lower()
    if "user api key" in kind:
        return
    has_amount = pick(cells, "Cost").lower() not in _NO_AMOUNT and "no charge" not in kind
    yield from lines_of(
        day_of(cells, "Date"),
        clean(cells["Model"]),
        usd_of(cells, "Cost") if has_amount else Decimal(0),
        is_included=kind.startswith("included"),
        uncached=count_of(cells, "Input (w/o Cache Write)"),
        cached=count_of(cells, "Cache Read"),
        written=count_of(cells, "Input (w/ Cache Write)"),
        completion=count_of(cells, "Output Tokens"),
    )


EXPORTS: Final = (
    Export(
        provider="cursor",
        name="events_by_hand",
        what="Cursor's usage events",
        signs=signs("Date,Kind,Model,Output Tokens,Cost"),
        read=_read,
    ),
)
