"""Print a report at a terminal, with the labels of the log as inert text."""

import os
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from io import TextIOWrapper

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from detectors.contract import Finding, Report
from detectors.wording.actions import (
    CHECKS_HEADING,
    action_labels,
    how_long,
    list_checks,
    title,
    with_savings,
)
from detectors.wording.assumptions import CHANGED_HEADING, CHANGED_NOTE, list_changed
from detectors.wording.figures import counted, day, percent, usd
from detectors.wording.headline import basis, first_actions, sentence
from detectors.wording.impact import amount, how_sure, impact
from detectors.wording.labels import inert
from detectors.wording.names import detector_name
from detectors.wording.projection import is_monthly
from detectors.wording.quality import warnings
from detectors.wording.tail import PLAN_HEADING, footnotes, past_findings, plan_notes, plan_tables

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
    longest = min(width // 3, LONGEST_LABEL)
    names = [n if len(n) <= longest else f"{n[: longest - 3]}..." for n, _ in rows]
    figures = [usd(spend) for _, spend in rows]
    left, right = max(map(len, names)), max(map(len, figures))
    room = max(1, min(LONGEST_BAR, width - left - right - 6))
    for name, figure, (_, spend) in zip(names, figures, rows, strict=True):
        bar = block * max(1 if spend > 0 else 0, round(room * spend / highest))
        yield Text(f"  {name:<{left}}  {figure:>{right}}  {bar}")


PLAIN_WIDTH = 100  # for a file or a pipe, which has no width
PROSE_WIDTH = 100  # longer lines are hard to read, however wide the terminal
STACKED_BELOW = 110  # columns: too narrow for route beside model and severity beside confidence
SHORTENED_BELOW = 80

_SEVERITY_STYLES = {"high": "bold red", "medium": "yellow"}


def report_console() -> Console:
    """Return standard output as wide as its terminal, or at a fixed width for a file or a pipe."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a label may not fit the encoding
    is_sized = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(
        width=None if is_sized else PLAIN_WIDTH, markup=False, emoji=False, highlight=False
    )


def print_report(report: Report, console: Console, top: int) -> None:
    width = min(console.width, PROSE_WIDTH)
    console.print(Text(sentence(report), style="bold"), width=width)
    console.print(Text(basis(report)), width=width)
    if actions := first_actions(report):
        heading = f"\nFix {'this' if len(actions) == 1 else 'these'} first"
        console.print(Text(heading, style="bold"), width=width)
        first = _numbered([_action(finding, report) for finding in actions], indent=2)
        console.print(first, width=width)
    valid_pct = report.audit.valid_pct
    if report.invalid_rows.count and valid_pct < report.thresholds.warn_valid_pct:
        warning = f"only {percent(valid_pct)} of rows could be read. See data quality below."
        console.print(Text(f"\nWarning: {warning}", style="bold yellow"), width=width)
    for line in spend_bars(report, width, console.encoding):
        console.print(line, width=width)
    with_dollars = with_savings(report.findings)
    findings = with_dollars[:top]
    if findings:
        is_stacked, is_short = console.width < STACKED_BELOW, console.width < SHORTENED_BELOW
        table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("#", justify="right", no_wrap=True)
        table.add_column("Finding", overflow="fold", min_width=None if is_short else 20)
        for heading in ("Route\nModel",) if is_stacked else ("Route", "Model"):
            table.add_column(heading, overflow="fold", max_width=30)
        for heading in ("Severity\nConfidence",) if is_stacked else ("Severity", "Confidence"):
            table.add_column(heading, no_wrap=True)
        heading = "Per month" if is_monthly(report.audit) else "Savings"
        table.add_column(heading, justify="right", no_wrap=True)
        for rank, finding in enumerate(findings, start=1):
            name = detector_name(finding.detector, report.methods)
            where = [[finding.route, finding.model]]
            if not is_stacked:
                where = [[finding.route], [finding.model]]
            labels = (
                Text("\n".join(inert(label) for label in column if label))
                for column in ([name, finding.kind], *where)
            )
            severity = Text(finding.severity, style=_SEVERITY_STYLES.get(finding.severity, ""))
            sure = [severity, Text(finding.confidence.lower())]
            sure = [Text("\n").join(sure)] if is_stacked else sure
            table.add_row(Text(str(rank)), *labels, *sure, amount(finding))
        console.print(table)
        # Below the table: fixes are too long for a column.
        console.print(_numbered([Text(inert(each.fix)) for each in findings]), width=width)
    else:
        console.print(Text("\nWe found no avoidable spend."))
    for text in _below(report, top):
        console.print(text, width=width)


def _action(finding: Finding, report: Report) -> Text:
    """Return the savings and the change, and in a second line where and how sure."""
    parts = (*map(inert, action_labels(finding)), how_sure(finding), how_long(finding))
    return Text.assemble(
        (impact(finding, report.audit), "bold green"),
        f": {title(finding, report.methods)}\n",
        (" · ".join(filter(None, parts)), "dim"),
    )


def _below(report: Report, top: int) -> Iterator[Text | Padding | Table]:
    yield Text()
    hidden = len(with_savings(report.findings)) - top
    if hidden > 0:
        yield Text(f"{counted(hidden, 'more finding')}. Use --top to see more.")
    yield from (Text(line, style="dim") for line in footnotes(report))
    if checks := list_checks(report.findings, report.methods):
        yield Text(f"\n{CHECKS_HEADING}", style="bold")
        yield from (_indented(each.words) for each in checks)
    if report.no_longer_happening:
        yield Text("\nNo longer happening", style="bold")
        yield from (_indented(line) for line in past_findings(report))
    if lines := list(plan_notes(report)):
        yield Text(f"\n{PLAN_HEADING}", style="bold")
        yield from map(_indented, lines)
    for each in plan_tables(report, top):
        table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for index, heading in enumerate(each.headings):
            table.add_column(
                heading, justify="left" if index < each.labels else "right", overflow="fold"
            )
        for row in each.rows:
            table.add_row(*map(Text, row))
        yield table
    if lines := warnings(report):
        yield Text("\nData quality", style="bold")
        yield from (_indented(inert(line), style="yellow") for line in lines)
    if lines := list(list_changed(report)):
        yield Text(f"\n{CHANGED_HEADING}", style="bold")
        yield Text(CHANGED_NOTE)
        yield from map(_indented, lines)


def _indented(line: str, style: str = "") -> Padding:
    """Indent every line of the text, those that wrap too."""
    return Padding(Text(line, style=style), (0, 0, 0, 2))


def _numbered(items: Sequence[Text], indent: int = 0) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for rank, item in enumerate(items, start=1):
        grid.add_row(Text(f"{' ' * indent}{rank}."), item)
    return grid
