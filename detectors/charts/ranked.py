"""Findings ranked by potential savings."""

from decimal import Decimal
from typing import Final

from detectors.charts.bars import BAR, ROW, label_row
from detectors.charts.chart import SERIES, WIDTH, Chart, Drawing, box
from detectors.contract import Report
from detectors.wording.figures import counted, whole_usd
from detectors.wording.labels import inert
from detectors.wording.names import detector_name
from detectors.wording.projection import per_month

_SHOWN: Final = 10


def findings_ranked(report: Report) -> Chart:
    priced = [each for each in report.findings if each.monthly_cost_impact_usd > 0]
    shown = priced[:_SHOWN]
    names = {
        finding.id: f"{finding.route} · {detector_name(finding.detector, report.methods)}"
        for finding in shown
    }
    title = "Potential savings by finding"
    summary = "No finding claims savings."
    if priced:
        largest = f"{whole_usd(priced[0].monthly_cost_impact_usd)}{per_month(report.audit)}"
        summary = f"{counted(len(priced), 'finding')}; the largest could save {largest}."
    drawing = Drawing(height=max(1, len(shown)) * ROW)
    most = max((each.monthly_cost_impact_usd for each in shown), default=Decimal(1))
    for index, finding in enumerate(shown):
        top, saving = index * ROW, finding.monthly_cost_impact_usd
        label_row(drawing, top, names[finding.id], whole_usd(saving))
        width = max(float(saving / most) * WIDTH, 1)
        drawing.fill(box(0, top + 20, width, BAR), "s0", SERIES[0])
    if not shown:
        drawing.text(0, 16, summary, faint=True)
    return Chart(
        name="findings",
        title=title,
        summary=summary,
        svg=drawing.svg("findings", title, summary),
        columns=("Finding", f"Potential savings{per_month(report.audit)}"),
        rows=tuple(
            (inert(names[finding.id]), whole_usd(finding.monthly_cost_impact_usd))
            for finding in shown
        ),
    )
