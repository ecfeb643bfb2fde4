"""The usage events that Cursor's dashboard exports as CSV.

An event that the plan includes is a charge and a credit of the same amount, so that what was used
shows and the bill stays what it is. Events of somebody's own key are on another bill.
"""

from collections.abc import Iterator
from typing import Final

from service.connections.exports import Cells, Export, count_of, day_of, pick, signs, usd_of
from service.connections.provider import CREDIT, CostLine, Line, UsageLine, clean

INCLUDED: Final = "Included in the plan"
_NO_AMOUNT: Final = ("", "-", "free", "included")
_OWN_KEY: Final = "user api key"
_NO_CHARGE: Final = "no charge"


def _read(cells: Cells) -> Iterator[Line]:
    kind = pick(cells, "Kind").lower()
    if _OWN_KEY in kind:
        return
    day, model = day_of(cells, "Date"), clean(cells["Model"])
    has_amount = pick(cells, "Cost").lower() not in _NO_AMOUNT and _NO_CHARGE not in kind
    usd = usd_of(cells, "Cost") if has_amount else usd_of({})
    written = count_of(cells, "Input (w/ Cache Write)")
    cached = count_of(cells, "Cache Read")
    yield UsageLine(
        bucket=day,
        model=model,
        requests=1,
        prompt_tokens=written + cached + count_of(cells, "Input (w/o Cache Write)"),
        completion_tokens=count_of(cells, "Output Tokens"),
        cached_tokens=cached,
        cache_write_tokens=written,
        usd=usd,
    )
    if usd:
        yield CostLine(bucket=day, line_item=model, model=model, amount=usd)
        if kind.startswith("included"):
            yield CostLine(bucket=day, line_item=INCLUDED, kind=CREDIT, amount=-usd)


EXPORTS: Final = (
    Export(
        provider="cursor",
        name="events_by_hand",
        what="Cursor's usage events",
        signs=signs("Date,Kind,Model,Output Tokens,Cost"),
        read=_read,
    ),
)
