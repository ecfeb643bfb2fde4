"""Renders a report and a finding for a notebook."""

from collections.abc import Iterable, Sequence
from typing import Final

from detectors.charts import findings_ranked
from detectors.contract import Finding, Method, Report
from detectors.html.markup import (
    cell,
    figure,
    marks,
    paragraph,
    route_of,
    table,
    text,
    worth,
)
from detectors.wording.evidence import evidence_cell, evidence_columns
from detectors.wording.figures import counted
from detectors.wording.headline import basis, sentence
from detectors.wording.names import SEVERITY_WORDS, detector_name

_SHOWN: Final = 20


def show_report(report: Report) -> str:
    """Render the headline, a chart and a table of the largest findings."""
    body = f"<h1>{text(sentence(report))}</h1>{paragraph(basis(report), 'quiet')}"
    if report.findings:
        shown = report.findings[:_SHOWN]
        body += figure(findings_ranked(report)) + list_findings(shown, report.methods)
        more = len(report.findings) - len(shown)
        if more:
            body += paragraph(
                f"And {counted(more, 'smaller finding')}: see report.findings", "quiet"
            )
    return cell(body)


def list_findings(findings: Iterable[Finding], methods: Sequence[Method]) -> str:
    return table(
        ("Finding", "Detector", "Route", "Severity", "Potential savings/month"),
        (
            (
                text(finding.id),
                text(detector_name(finding.detector, methods)),
                route_of(finding),
                text(SEVERITY_WORDS.get(finding.severity, finding.severity)),
                worth(finding),
            )
            for finding in findings
        ),
        numbers=[4],
    )


def show_finding(finding: Finding, methods: Sequence[Method]) -> str:
    return cell(finding_body(finding, methods))


def finding_body(finding: Finding, methods: Sequence[Method]) -> str:
    """Render a finding in full, with its evidence collapsed."""
    dollars = worth(finding)
    impact = "no savings claimed" if dollars == "–" else f"{dollars}/month"
    name = detector_name(finding.detector, methods)
    body = f"<h3>{text(name)}: {impact}</h3><p>{route_of(finding)}</p>"
    body += f'<p class="quiet">{marks(finding)}</p>{paragraph(finding.fix)}'
    if finding.formula:
        body += paragraph(f"How we calculated this: {finding.formula}", "quiet")
    if finding.evidence:
        body += (
            f"<details><summary>Evidence: {_evidence(finding)}"
            f"</summary>{list_calls(finding, methods)}</details>"
        )
    return body


def _evidence(finding: Finding) -> str:
    shown = len(finding.evidence)
    if shown < finding.calls:
        return f"the {shown} most expensive of {counted(finding.calls, 'call')}"
    return counted(finding.calls, "call")


def list_calls(finding: Finding, methods: Iterable[Method]) -> str:
    """Return the finding's evidence as a table with the columns of its detector."""
    columns = evidence_columns(finding.detector, methods)
    return table(
        [column.label for column in columns],
        [[text(evidence_cell(call, column)) for column in columns] for call in finding.evidence],
        numbers=[index for index, column in enumerate(columns) if column.format != "time"],
    )
