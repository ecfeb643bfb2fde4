"""Renders a report and a finding for a notebook."""

from collections.abc import Iterable, Sequence
from typing import Final

from detectors.charts import findings_ranked
from detectors.contract import Finding, Method, Report
from detectors.html.markup import (
    cell,
    figure,
    marks,
    own,
    paragraph,
    route_of,
    show_tiles,
    table,
    text,
)
from detectors.wording.actions import (
    action_labels,
    how_long,
    title,
)
from detectors.wording.assumptions import CHANGED_HEADING, CHANGED_NOTE, list_changed
from detectors.wording.evidence import evidence_cell, evidence_columns
from detectors.wording.figures import counted
from detectors.wording.headline import basis, first_actions, sentence, tiles
from detectors.wording.impact import amount, how_sure, impact_alone
from detectors.wording.names import SEVERITY_WORDS, detector_name
from detectors.wording.projection import per_month
from detectors.wording.quality import warnings
from detectors.wording.tail import PLAN_HEADING, plan_notes, plan_tables

_SHOWN: Final = 20


def show_report(report: Report) -> str:
    body = first_screen(report)
    if report.findings:
        shown = report.findings[:_SHOWN]
        body += figure(findings_ranked(report))
        body += list_findings(shown, report.methods, per_month(report.audit))
        more = len(report.findings) - len(shown)
        if more:
            body += paragraph(
                f"And {counted(more, 'smaller finding')}: see report.findings", "quiet"
            )
    sections = (show_plan_usage, show_quality, show_assumptions)
    return cell(body + "".join(show(report) for show in sections))


def first_screen(report: Report) -> str:
    body = f"<h1>{text(sentence(report))}</h1>"
    if report.audit.metered_calls:
        body += show_tiles(tiles(report.audit))
    actions = first_actions(report)
    if actions:
        body += f"<h2>Fix {'this' if len(actions) == 1 else 'these'} first</h2><ol>"
        for finding in actions:
            parts = (*action_labels(finding), how_sure(finding), how_long(finding))
            body += (
                f"<li><b>{text(impact_alone(finding))}</b>: "
                f"{text(str(title(finding, report.methods)))}"
                f'<p class="quiet">{" · ".join(map(text, filter(None, parts)))}</p></li>'
            )
        body += "</ol>"
    return body + paragraph(basis(report), "quiet")


def show_plan_usage(report: Report) -> str:
    """Render the calls that a plan includes, with their value; "" without any."""
    notes = "".join(map(paragraph, plan_notes(report)))
    tables = "".join(
        table(
            each.headings,
            [[text(cell) for cell in row] for row in each.rows],
            numbers=range(each.labels, len(each.headings)),
        )
        for each in plan_tables(report)
    )
    return f"<h2>{PLAN_HEADING}</h2>{notes}{tables}" if notes else ""


def show_quality(report: Report) -> str:
    """Render what limits how far the figures can be trusted; "" if nothing does."""
    lines = "".join(f"<li>{text(line)}</li>" for line in warnings(report))
    return f"<h2>Data quality</h2><ul>{lines}</ul>" if lines else ""


def show_assumptions(report: Report) -> str:
    """Render the assumptions that differ from their defaults; "" if none does."""
    lines = "".join(f"<li>{text(line)}</li>" for line in list_changed(report))
    return (
        f"<h2>{text(CHANGED_HEADING)}</h2>{paragraph(CHANGED_NOTE)}<ul>{lines}</ul>"
        if lines
        else ""
    )


def list_findings(findings: Iterable[Finding], methods: Sequence[Method], unit: str) -> str:
    return table(
        ("Finding", "Detector", "Route", "Severity", "Confidence", f"Potential savings{unit}"),
        (
            (
                own(finding.id),
                own(detector_name(finding.detector, methods)),
                route_of(finding),
                own(SEVERITY_WORDS.get(finding.severity, finding.severity)),
                own(finding.confidence.lower()),
                amount(finding),
            )
            for finding in findings
        ),
        numbers=[5],
    )


def show_finding(finding: Finding, methods: Sequence[Method]) -> str:
    return cell(finding_body(finding, methods))


def finding_body(finding: Finding, methods: Sequence[Method]) -> str:
    name = str(title(finding, methods))
    body = f"<h3>{text(name)}: {text(impact_alone(finding))}</h3><p>{route_of(finding)}</p>"
    body += f'<p class="quiet">{marks(finding)}</p>{paragraph(finding.fix)}'
    if finding.code:
        body += f"<pre>{text(finding.code)}</pre>"
    if finding.formula:
        body += paragraph(f"How we calculated this: {finding.formula}", "quiet")
    if finding.evidence:
        shown, calls = len(finding.evidence), counted(finding.calls, "call")
        if shown < finding.calls:
            calls = f"the {shown} most expensive of {calls}"
        table_of_calls = list_calls(finding, methods)
        body += f"<details><summary>Evidence: {calls}</summary>{table_of_calls}</details>"
    return body


def list_calls(finding: Finding, methods: Iterable[Method]) -> str:
    columns = evidence_columns(finding.detector, methods)
    return table(
        [column.label for column in columns],
        [[text(evidence_cell(call, column)) for column in columns] for call in finding.evidence],
        numbers=[
            index for index, column in enumerate(columns) if column.format not in ("time", "text")
        ],
    )
