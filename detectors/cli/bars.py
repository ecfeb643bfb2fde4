"""Spend by route and by day as bars of text."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from rich.text import Text

from detectors.contract import Report
from detectors.wording.figures import counted, day, usd
from detectors.wording.labels import inert

SHOWN_ROUTES = 8
SHOWN_DAYS = 14
LONGEST_BAR = 40
LONGEST_LABEL = 30

_BLOCK, _ASCII_BLOCK = "█", "#"


def spend_bars(report: Report, width: int, encoding: str) -> Iterator[Text]:
    """Yield the lines of both charts; a report without spend has none."""
    block = _BLOCK if encoding.lower().startswith("utf") else _ASCII_BLOCK
    routes = [(inert(each.route), each.spend_usd) for each in report.spend_by_route]
    days = [(day(each.day), each.spend_usd) for each in report.spend_by_day]
    more_routes = len(routes) - SHOWN_ROUTES + report.other_routes.count
    yield from _chart("Spend by route", routes[:SHOWN_ROUTES], width, block)
    if routes and more_routes > 0:
        yield Text(f"  and {counted(more_routes, 'more route')}", style="dim")
    yield from _chart("Spend by day", days[-SHOWN_DAYS:], width, block)
    if len(days) > SHOWN_DAYS:
        yield Text(f"  after {counted(len(days) - SHOWN_DAYS, 'earlier day')}", style="dim")


def _chart(
    title: str, rows: Sequence[tuple[str, Decimal]], width: int, block: str
) -> Iterator[Text]:
    highest = max((spend for _, spend in rows), default=Decimal(0))
    if highest <= 0:
        return
    yield Text(f"\n{title}", style="bold")
    names = [_shortened(label, width // 3) for label, _ in rows]
    figures = [usd(spend) for _, spend in rows]
    left, right = max(map(len, names)), max(map(len, figures))
    room = max(1, min(LONGEST_BAR, width - left - right - 6))
    for name, figure, (_, spend) in zip(names, figures, rows, strict=True):
        bar = block * max(1 if spend > 0 else 0, round(room * spend / highest))
        yield Text(f"  {name:<{left}}  {figure:>{right}}  {bar}")


def _shortened(label: str, room: int) -> str:
    longest = min(room, LONGEST_LABEL)
    return label if len(label) <= longest else f"{label[: longest - 3]}..."
