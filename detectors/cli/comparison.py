"""Print a comparison at a terminal, with the labels of the logs as inert text."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from detectors.cli.terminal import PROSE_WIDTH
from detectors.contract import Span, SpendChange, compare_spend, is_per_day
from detectors.wording.comparison import STATUS_WORDS
from detectors.wording.figures import change, counted, period, usd, whole_usd
from detectors.wording.labels import inert


class ChangedFinding(NamedTuple):
    """A finding of either side: its status, the name of its detector, and its savings."""

    status: str
    name: str
    route: str
    model: str
    before_usd: Decimal
    after_usd: Decimal


class Printed(NamedTuple):
    spans: tuple[Span, Span]
    routes: Sequence[SpendChange]
    models: Sequence[SpendChange]
    findings: Sequence[ChangedFinding]
    notes: Sequence[str]
    gap: str = ""  # why the sides can't be compared; a note says it


def print_comparison(printed: Printed, console: Console, top: int) -> None:
    width = min(console.width, PROSE_WIDTH)
    for line in _totals(printed.spans, printed.gap):
        console.print(line, width=width)
    for name, changes in (("route", printed.routes), ("model", printed.models)):
        console.print(_spend(name, changes[:top], printed))
        if len(changes) > top:
            console.print(Text(f"{counted(len(changes) - top, 'smaller change')}.", style="dim"))
    if printed.findings:
        table = plain_table(
            ("Status", "Finding", "Route", "Model"), ("Savings before", "Savings after")
        )
        for each in printed.findings[:top]:
            labels = (Text(inert(label)) for label in (each.name, each.route, each.model))
            dollars = (whole_usd(each.before_usd), whole_usd(each.after_usd))
            table.add_row(STATUS_WORDS[each.status], *labels, *dollars)
        console.print(table)
    else:
        console.print(Text("No findings before or after."))
    for note in printed.notes:
        console.print(Text(note, style="dim"), width=width)


def _totals(spans: tuple[Span, Span], gap: str) -> Iterator[Text]:
    for name, span in zip(("Before", "After "), spans, strict=True):
        days = f"{period(span.first, span.last)} UTC" if span.first and span.last else "no calls"
        yield Text.assemble(
            (f"{name}  {usd(span.spend_usd)}", "bold"),
            f"  {days} ({counted(span.days, 'day')}, {counted(span.calls, 'call')})",
        )
    (total,) = compare_spend({(): spans[0].spend_usd}, {(): spans[1].spend_usd}, spans)
    unit = " per day" if is_per_day(*spans) else ""
    if gap:
        return
    over = spans[1].days if is_per_day(*spans) else 1
    share = change(total.after_usd, total.before_usd, over)
    yield Text(f"Change  {share} ({_signed(total.change_usd)}{unit})", style="bold")


def _spend(name: str, changes: Sequence[SpendChange], printed: Printed) -> Table:
    per_day = is_per_day(*printed.spans)
    heading = f"{name.capitalize()}, per day" if per_day else name.capitalize()
    days = printed.spans[1].days if per_day else 1
    table = plain_table((heading,), ("Before", "After", "Change", ""))
    for each in changes:
        label = " ".join(map(inert, reversed(each.labels))) or "(no tag or endpoint)"
        table.add_row(
            Text(label),
            usd(each.before_usd),
            usd(each.after_usd),
            _signed(each.change_usd),
            "–" if printed.gap else change(each.after_usd, each.before_usd, days),
        )
    return table


def plain_table(labels: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for label in labels:
        table.add_column(label, overflow="fold", max_width=36)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _signed(amount: Decimal) -> str:
    return f"{'+' if amount > 0 else ''}{usd(amount)}"
