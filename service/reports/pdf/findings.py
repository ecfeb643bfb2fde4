"""The findings in the PDF: the largest in full, the others one line each."""

from collections.abc import Iterator
from typing import Final

from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import CondPageBreak, Flowable, KeepTogether, PageBreak, Spacer, Table

from detectors.contract import Finding, Method, Report
from detectors.wording.figures import counted, number
from detectors.wording.impact import amount, impact, impact_range, seen
from detectors.wording.names import (
    CONFIDENCE_NAMES,
    CONFIDENCE_WORDS,
    SEVERITY_WORDS,
    detector_name,
)
from detectors.wording.projection import is_monthly
from detectors.wording.tail import footnotes, past_findings
from service.reports.pdf.looks import FINDING, IMPACT, QUIET, SEVERITIES, TEXT_WIDTH
from service.reports.pdf.parts import PLAIN_CELLS, heading, lines, words

_FULL_FINDINGS: Final = 8
_LISTED_FINDINGS: Final = 400
_ENDS: Final = (*PLAIN_CELLS, ("VALIGN", (0, 0), (-1, -1), "BOTTOM"))


def list_findings(report: Report) -> Iterator[Flowable]:
    findings = report.findings
    if findings:
        yield PageBreak()
    yield heading("Findings", "findings")
    if not findings:
        yield words("We found nothing to fix in these calls.")
    for finding in findings[:_FULL_FINDINGS]:
        yield _finding(finding, report)
    listed = findings[_FULL_FINDINGS:_LISTED_FINDINGS]
    if listed:
        yield CondPageBreak(120)
        yield heading(counted(len(listed), "smaller finding"), "smaller-findings")
        yield lines(
            ("Finding", "Severity", "Confidence", "Detector", "Route", "Model", _heading(report)),
            [_row(finding, report.methods) for finding in listed],
            (8, 8, 12, 21, 21, 15, 15),
        )
    if len(findings) > _LISTED_FINDINGS:
        yield words(
            f"These are the {_LISTED_FINDINGS} largest of {number(len(findings))} findings. "
            "The CSV and JSON files on the report page list all of them.",
            QUIET,
        )
    yield Spacer(1, 6)
    yield from (words(line, QUIET) for line in footnotes(report))
    if report.no_longer_happening:
        yield heading("No longer happening", "past")
        yield from (words(line) for line in past_findings(report))


def _heading(report: Report) -> str:
    return "Savings/month" if is_monthly(report.audit) else "Savings"


def _finding(finding: Finding, report: Report) -> Flowable:
    title = detector_name(finding.detector, report.methods)
    name = words(title, FINDING)
    name.outline = (finding.id, f"{finding.id}: {title}", 1)
    head = Table(
        [[name, words(impact(finding, report.audit), IMPACT)]],
        colWidths=[TEXT_WIDTH * 0.7, TEXT_WIDTH * 0.3],
        style=_ENDS,
    )
    head.outline = name.outline
    severity = SEVERITY_WORDS.get(finding.severity, finding.severity)
    confidence = CONFIDENCE_WORDS.get(finding.confidence, "")
    color = SEVERITIES.get(finding.severity, SEVERITIES["low"])
    parts: list[Flowable] = [
        head,
        words(_where(finding)),
        words(
            f"{finding.id} · {finding.detector} · {severity} · "
            f"{finding.confidence.lower()} ({confidence}) · {counted(finding.calls, 'call')}"
            f"{_range_and_times(finding)}",
            ParagraphStyle("marks", QUIET, textColor=color),
        ),
        words(finding.fix),
    ]
    if finding.code:
        # Indented by spaces that a paragraph keeps.
        code = str(finding.code).replace("    ", "\u00a0" * 4)
        line = ParagraphStyle("code", QUIET, spaceBefore=0, spaceAfter=0)
        parts += [Spacer(1, 3), *(words(each, line) for each in code.splitlines()), Spacer(1, 6)]
    if finding.formula:
        parts.append(words(f"How we calculated this: {finding.formula}", QUIET))
    return KeepTogether([*parts, Spacer(1, 6)])


def _range_and_times(finding: Finding) -> str:
    between = impact_range(finding)
    known = [f"range {between}" if between else "", seen(finding)]
    return "".join(f" · {each}" for each in known if each)


def _where(finding: Finding) -> str:
    model = "" if finding.route == finding.model else f" · {finding.model}"
    return f"{finding.route}{model} ({finding.provider})"


def _row(finding: Finding, methods: tuple[Method, ...]) -> tuple[str, ...]:
    return (
        finding.id,
        SEVERITY_WORDS.get(finding.severity, finding.severity),
        CONFIDENCE_NAMES.get(finding.confidence, finding.confidence),
        detector_name(finding.detector, methods),
        finding.route,
        finding.model,
        amount(finding),
    )
