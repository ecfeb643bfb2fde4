"""Print a comparison at a terminal, with the labels of the logs as inert text."""

from collections.abc import Sequence
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
    spans, per_day = printed.spans, is_per_day(*printed.spans)
    over = spans[1].days if per_day else 1
    for name, span in zip(("Before", "After "), spans, strict=True):
        days = f"{period(span.first, span.last)} UTC" if span.first and span.last else "no calls"
        line = Text.assemble(
            (f"{name}  {usd(span.spend_usd)}", "bold"),
            f"  {days} ({counted(span.days, 'day')}, {counted(span.calls, 'call')})",
        )
        console.print(line, width=width)
    if not printed.gap:
        (total,) = compare_spend({(): spans[0].spend_usd}, {(): spans[1].spend_usd}, spans)
        share = change(total.after_usd, total.before_usd, over)
        amount = f"{_signed(total.change_usd)}{' per day' if per_day else ''}"
        console.print(Text(f"Change  {share} ({amount})", style="bold"), width=width)
    for name, changes in (("route", printed.routes), ("model", printed.models)):
        heading = f"{name.capitalize()}, per day" if per_day else name.capitalize()
        table = plain_table((heading,), ("Before", "After", "Change", ""))
        for spend in changes[:top]:
            label = " ".join(map(inert, reversed(spend.labels))) or "(no tag or endpoint)"
            amounts = (usd(spend.before_usd), usd(spend.after_usd), _signed(spend.change_usd))
            share = "–" if printed.gap else change(spend.after_usd, spend.before_usd, over)
            table.add_row(Text(label), *amounts, share)
        console.print(table)
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


def plain_table(labels: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for label in labels:
        table.add_column(label, overflow="fold", max_width=36)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _signed(amount: Decimal) -> str:
    return f"{'+' if amount > 0 else ''}{usd(amount)}"
