"""Horizontal bars, each under its label: spend by model and by route."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from detectors.charts.chart import SERIES, WIDTH, Chart, Drawing, box, fitted
from detectors.contract import Others, Report
from detectors.wording.figures import counted, number, percent, usd
from detectors.wording.labels import inert, shortened

_SHOWN: Final = 10
_LISTED: Final = 25
ROW: Final = 38
LABEL_LENGTH: Final = 44
BAR: Final = 11

# A label, how many calls, and what they cost.
_Entry = tuple[str, int, Decimal]


def spend_by_model(report: Report) -> Chart:
    named = [(f"{entry.model} ({entry.provider})", entry.calls, entry.spend_usd)
             for entry in report.spend_by_model]  # fmt: skip
    return _spend("models", ("model", "models"), named, report.other_models)


def spend_by_route(report: Report) -> Chart:
    named = [(entry.route or "no tag or endpoint", entry.calls, entry.spend_usd)
             for entry in report.spend_by_route]  # fmt: skip
    return _spend("routes", ("route", "routes"), named, report.other_routes)


def _spend(name: str, nouns: tuple[str, str], entries: Sequence[_Entry], others: Others) -> Chart:
    total = sum((spend for _, _, spend in entries), others.spend_usd)
    drawn = _cut(entries, _SHOWN, nouns, others)
    title = f"Spend by {nouns[0]}"
    summary = "No calls could be priced."
    if entries:
        label, _, spend = entries[0]
        largest = f"{shortened(label, LABEL_LENGTH)} accounts for {percent(share(spend, total))}"
        summary = f"{usd(total)} over {counted(len(entries) + others.count, *nouns)}; {largest}."
    rows = list(drawn)
    drawing = Drawing(height=max(1, len(rows)) * ROW)
    most = max((spend for _, _, spend in rows), default=Decimal(0)) or Decimal(1)
    for index, (shown, _, spend) in enumerate(rows):
        top = index * ROW
        label_row(drawing, top, shown, f"{usd(spend)} · {percent(share(spend, total))}")
        width = float(spend / most) * WIDTH
        kind = len(SERIES) - 1 if index == _SHOWN else 0  # the last bar is all others
        drawing.fill(box(0, top + 20, max(width, 1), BAR), f"s{kind}", SERIES[kind])
    if not rows:
        drawing.text(0, 16, "No calls could be priced.", faint=True)
    return Chart(
        name=name,
        title=title,
        summary=summary,
        svg=drawing.svg(name, title, summary),
        columns=(nouns[0].capitalize(), "Calls", "Spend", "Share"),
        rows=tuple(
            (inert(label), number(calls), usd(spend), percent(share(spend, total)))
            for label, calls, spend in _cut(entries, _LISTED, nouns, others)
        ),
    )


def _cut(
    entries: Sequence[_Entry], shown: int, nouns: tuple[str, str], others: Others
) -> list[_Entry]:
    rest = entries[shown:]
    hidden = others.count + len(rest)
    if not hidden:
        return list(entries)
    calls = others.calls + sum(calls for _, calls, _ in rest)
    spend = others.spend_usd + sum((spend for _, _, spend in rest), Decimal(0))
    return [*entries[:shown], (f"{number(hidden)} other {nouns[hidden != 1]}", calls, spend)]


def share(part: Decimal, whole: Decimal) -> float:
    return float(part / whole * 100) if whole else 0.0


def label_row(drawing: Drawing, top: float, label: str, value: str) -> None:
    """Draw the label and the value above a bar, shortening the label to fit."""
    drawing.text(0, top + 13, fitted(label, WIDTH - len(value) * 8.5 - 8))
    drawing.text(WIDTH, top + 13, value, end=True)
