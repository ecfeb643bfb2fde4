"""Print a report at a terminal, with the labels of the log as inert text."""

import os
import sys
from collections.abc import Iterator, Sequence
from io import TextIOWrapper

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from detectors.cli.bars import spend_bars
from detectors.contract import Finding, Method, Report
from detectors.wording.figures import counted, percent, period, usd
from detectors.wording.labels import inert
from detectors.wording.names import detector_name

PLAIN_WIDTH = 100  # for a file or a pipe, which has no width
PROSE_WIDTH = 100  # longer lines are hard to read, however wide the terminal
STACKED_BELOW = 110  # columns: too narrow for route and model beside each other
SHORTENED_BELOW = 80
SHOWN_MODELS = 5

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
    """Print the headline, spend by route and by day, and the most expensive findings."""
    width = min(console.width, PROSE_WIDTH)
    for line in (*_headline(report), *spend_bars(report, width, console.encoding)):
        console.print(line, width=width)
    findings = report.findings[:top]
    if not findings:
        console.print(Text("\nWe found no avoidable spend."))
        return
    console.print(_table(findings, report.methods, console.width))
    console.print(_fixes(findings), width=width)
    console.print()
    for line in _footnotes(report, top):
        console.print(line, width=width)


def _headline(report: Report) -> Iterator[Text]:
    audit = report.audit
    yield Text.assemble(
        (f"{usd(audit.projected_spend_usd)}/month", "bold"),
        ", of which ",
        (f"{usd(audit.projected_savings_usd)} ({percent(audit.savings_pct)})", "bold green"),
        " is avoidable",
    )
    yield Text(
        f"{usd(audit.total_spend_usd)} in {counted(audit.observed_days, 'day')} "
        f"{_period(report)}· {counted(audit.records, 'call')} · "
        f"{percent(audit.valid_pct)} of rows valid · "
        f"prices of {report.prices.source} {report.prices.version}"
        f"{', with negotiated rates' if report.prices.negotiated else ''}"
    )
    yield from _warnings(report)


def _period(report: Report) -> str:
    first, last = report.audit.first_call, report.audit.last_call
    return f"({period(first, last)}) " if first and last else ""


def _warnings(report: Report) -> Iterator[Text]:
    audit, minimum = report.audit, report.thresholds.warn_valid_pct
    if report.invalid_rows.count and audit.valid_pct < minimum:
        yield Text(
            f"Warning: {counted(report.invalid_rows.count, 'row')} could not be read. "
            f"With less than {minimum:g}% of rows valid, these figures may mislead."
            f"{_because(report)}",
            style="bold yellow",
        )
    if audit.equiv_spend:
        yield Text(
            "Some calls belong to a flat-rate plan or an unknown provider: their dollars are the "
            "list-price cost at the model provider's API, not a bill.",
            style="yellow",
        )
    if report.unpriced:
        named = [
            f"{inert(entry.model)} ({inert(entry.provider)}, {counted(entry.calls, 'call')})"
            for entry in report.unpriced[:SHOWN_MODELS]
        ]
        more = len(report.unpriced) - len(named)
        named += [f"{more} more"] if more else []
        yield Text(
            f"Not priced, and excluded from dollar figures: {', '.join(named)}.", style="yellow"
        )


def _because(report: Report) -> str:
    reason = report.invalid_rows.main_reason
    return f" Most common reason: {reason}." if reason else ""


def _table(findings: Sequence[Finding], methods: Sequence[Method], width: int) -> Table:
    is_stacked, is_short = width < STACKED_BELOW, width < SHORTENED_BELOW
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("Finding", overflow="fold", min_width=None if is_short else 20)
    for heading in ("Route\nModel",) if is_stacked else ("Route", "Model"):
        table.add_column(heading, overflow="fold", max_width=30)
    table.add_column("Severity", no_wrap=True)
    if not is_short:
        table.add_column("Confidence", no_wrap=True)
    table.add_column("Per month", justify="right", no_wrap=True)
    for rank, finding in enumerate(findings, start=1):
        name = detector_name(finding.detector, methods)
        names = _stacked_names(finding, name) if is_stacked else _names(finding, name)
        table.add_row(Text(str(rank)), *names, *_figures(finding, is_short=is_short))
    return table


def _names(finding: Finding, name: str) -> list[Text]:
    detector = "\n".join(filter(None, (name, finding.kind)))
    return [Text(detector), Text(inert(finding.route)), Text(inert(finding.model))]


def _stacked_names(finding: Finding, name: str) -> list[Text]:
    """Return the same names in two columns, one name per line."""
    columns = (name, finding.kind), (finding.route, finding.model)
    return [Text("\n".join(inert(name) for name in names if name)) for names in columns]


def _figures(finding: Finding, *, is_short: bool) -> list[Text]:
    severity = Text(finding.severity, style=_SEVERITY_STYLES.get(finding.severity, ""))
    confidence = [] if is_short else [Text(finding.confidence.lower())]
    return [severity, *confidence, Text(usd(finding.monthly_cost_impact_usd))]


def _fixes(findings: tuple[Finding, ...]) -> Table:
    """Return the fixes by rank, below the table: they are too long for a column."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for rank, finding in enumerate(findings, start=1):
        grid.add_row(Text(f"{rank}."), Text(inert(finding.fix)))
    return grid


def _footnotes(report: Report, top: int) -> Iterator[Text]:
    if len(report.findings) > top:
        hidden = len(report.findings) - top
        yield Text(f"{counted(hidden, 'more finding')}. Use --top to see more.")
    if report.audit.below_floor:
        yield Text(
            f"{counted(report.audit.below_floor, 'finding')} under "
            f"{usd(report.thresholds.floor_usd)}/month not shown."
        )
    yield Text("A call can trigger several findings; totals count each dollar once.", style="dim")
