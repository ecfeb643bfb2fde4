"""The sections of the PDF, in order."""

from collections.abc import Iterator
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import CondPageBreak, Flowable, KeepTogether, Spacer, Table

from detectors import charts
from detectors.contract import Finding, Report
from detectors.wording.actions import CHECKS_HEADING, how_long, list_checks, title, with_savings
from detectors.wording.assumptions import CHANGED_HEADING, CHANGED_NOTE, list_changed
from detectors.wording.figures import counted, number
from detectors.wording.impact import amount, impact, impact_range, seen
from detectors.wording.names import (
    CONFIDENCE_NAMES,
    CONFIDENCE_WORDS,
    SEVERITY_WORDS,
    detector_name,
)
from detectors.wording.projection import is_monthly
from detectors.wording.quality import measures, warnings
from detectors.wording.tail import PLAN_HEADING, footnotes, past_findings, plan_notes, plan_tables
from service.reports.pdf.cover import cover
from service.reports.pdf.fonts import named
from service.reports.pdf.looks import FINDING, IMPACT, QUIET, SEVERITIES, TEXT_WIDTH
from service.reports.pdf.parts import (
    PLAIN_CELLS,
    colored,
    drawing,
    heading,
    lines,
    linked,
    name_values,
    side_by_side,
    words,
)
from service.reports.pdf.tags import tag_layout

_LISTED_REASONS: Final = 12
_LISTED_UNPRICED: Final = 20
_HALF: Final = 0.47
_WIDE: Final = 0.58


def story(report: Report, *, name: str, period: str, rules_url: str) -> list[Flowable]:
    """Return all parts of the PDF."""
    return [
        *cover(report, name, period),
        *_charts(report),
        *list_findings(report),
        *_plan_usage(report),
        *_data(report),
        *_assumptions(report),
        *_rules(report, rules_url),
    ]


def _charts(report: Report) -> Iterator[Flowable]:
    if not report.spend_by_day:
        return
    report = with_named_labels(report)
    yield CondPageBreak(320)  # a small report has room for them on its first page
    yield heading("Where the money goes", "money")
    first, *others = charts.REPORT_CHARTS
    # Over time in one column, and what it consists of in two below it.
    yield from drawing(first(report), TEXT_WIDTH * _WIDE)
    parts = [drawing(draw(report), TEXT_WIDTH * _HALF) for draw in others]
    parts += [[]] * (len(parts) % 2)  # the last row has two columns too
    for row in zip(parts[::2], parts[1::2], strict=True):
        yield side_by_side([row], _HALF)


def _plan_usage(report: Report) -> Iterator[Flowable]:
    if not report.plan_usage:
        return
    yield CondPageBreak(200)
    yield heading(PLAN_HEADING, "plan-usage")
    yield from map(words, plan_notes(report))
    for each in plan_tables(report):
        numbers = len(each.headings) - each.labels
        yield lines(each.headings, each.rows, (40 // each.labels,) * each.labels + (10,) * numbers)
        yield Spacer(1, 10)


def _data(report: Report) -> Iterator[Flowable]:
    yield CondPageBreak(240)
    yield heading("Data quality", "data")
    yield from (words(line) for line in warnings(report))
    rows = measures(report)
    half = (len(rows) + 1) // 2
    columns = [[name_values(part, TEXT_WIDTH * _HALF)] for part in (rows[:half], rows[half:])]
    yield side_by_side([columns], _HALF)
    yield Spacer(1, 10)
    reasons = sorted(report.invalid_rows.reasons.items(), key=lambda item: (-item[1], item[0]))
    if reasons:
        rows = [(reason, number(count)) for reason, count in reasons[:_LISTED_REASONS]]
        yield lines(("Why rows were excluded", "Rows"), rows, (80, 20))
        yield Spacer(1, 10)
    if report.unpriced:
        unpriced = report.unpriced[:_LISTED_UNPRICED]
        rows = [(f"{entry.model} ({entry.provider})", number(entry.calls)) for entry in unpriced]
        yield lines(("Not priced", "Calls"), rows, (80, 20))
        yield Spacer(1, 10)
    rates = "Your negotiated discounts are not included."
    if report.prices.negotiated:
        rates = f"These negotiated rates replace them: {'; '.join(report.prices.negotiated)}."
    if report.prices.aliases:
        rates += f" Your aliases: {'; '.join(report.prices.aliases)}."
    yield words(
        f"List prices from {report.prices.source}, version {report.prices.version}, in effect at "
        "the time of each call, including long-context tiers, cache rates, and batch and flex "
        f"discounts. {rates}"
    )
    yield words(
        "This audit used token counts, times, model names and labels, never the text of a prompt "
        "or an answer."
    )


def _assumptions(report: Report) -> Iterator[Flowable]:
    changed = list(list_changed(report))
    if changed:
        yield CondPageBreak(100)
        yield heading(CHANGED_HEADING, "assumptions")
        yield words(CHANGED_NOTE)
        yield from map(words, changed)


def _rules(report: Report, url: str) -> Iterator[Flowable]:
    if not report.methods:
        return
    yield CondPageBreak(80)
    yield heading("How the detectors work", "methods")
    if url:
        yield linked("What each detector fires on, and what it stays quiet on: ", url)
    else:
        yield words("The report page explains what each detector fires on, and what it leaves out.")


_Spend = TypeVar("_Spend", bound=Struct)


def with_named_labels(report: Report) -> Report:
    """Replace the characters of labels that the fonts lack."""
    return replace(
        report,
        spend_by_model=_each(report.spend_by_model, "model"),
        spend_by_route=_each(report.spend_by_route, "route"),
        spend_by_day_and_model=_each(report.spend_by_day_and_model, "model"),
    )


def _each(entries: tuple[_Spend, ...], field: str) -> tuple[_Spend, ...]:
    return tuple(
        entry
        if (label := getattr(entry, field)).isascii()
        else replace(entry, **{field: named(label)})
        for entry in entries
    )


_FULL_FINDINGS: Final = 8
_LISTED_FINDINGS: Final = 400
_ENDS: Final = (*PLAIN_CELLS, ("VALIGN", (0, 0), (-1, -1), "BOTTOM"))


def list_findings(report: Report) -> Iterator[Flowable]:
    findings = with_savings(report.findings)
    checks = list_checks(report.findings, report.methods)
    top = heading("Findings", "findings")
    if not findings:
        yield KeepTogether([top, words("We found no avoidable spend in these calls.")])
    for at, finding in enumerate(findings[:_FULL_FINDINGS]):
        parts = [*_finding(finding, report), Spacer(1, 6)]
        yield KeepTogether(parts if at else [top, *parts])
    listed = findings[_FULL_FINDINGS:_LISTED_FINDINGS]
    if listed:
        yield CondPageBreak(120)
        yield heading(counted(len(listed), "smaller finding"), "smaller-findings")
        savings = "Savings/month" if is_monthly(report.audit) else "Savings"
        yield lines(
            ("Finding", "Severity", "Confidence", "Detector", "Route", "Model", savings),
            [
                (
                    finding.id,
                    SEVERITY_WORDS.get(finding.severity, finding.severity),
                    CONFIDENCE_NAMES.get(finding.confidence, finding.confidence),
                    detector_name(finding.detector, report.methods),
                    finding.route,
                    finding.model,
                    amount(finding),
                )
                for finding in listed
            ],
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
    if checks:
        yield heading(CHECKS_HEADING, "checks")
        yield from (words(each.words) for each in checks)
    if report.no_longer_happening:
        yield heading("No longer happening", "past")
        yield from (words(line) for line in past_findings(report))


def _finding(finding: Finding, report: Report) -> list[Flowable]:
    todo = str(title(finding, report.methods))
    name = words(todo, FINDING)
    name.outline = (finding.id, f"{finding.id}: {todo}", 1)
    head = Table(
        [[name, words(impact(finding, report.audit), IMPACT)]],
        colWidths=[TEXT_WIDTH * 0.7, TEXT_WIDTH * 0.3],
        style=_ENDS,
        renderCB=tag_layout,
    )
    head.outline = name.outline
    severity = SEVERITY_WORDS.get(finding.severity, finding.severity)
    confidence = CONFIDENCE_WORDS.get(finding.confidence, "")
    color = SEVERITIES.get(finding.severity, SEVERITIES["low"])
    model = "" if finding.route == finding.model else f" · {finding.model}"
    between = impact_range(finding)
    known = [f"range {between}" if between else "", how_long(finding), seen(finding)]
    more = "".join(f" · {each}" for each in known if each)
    parts: list[Flowable] = [
        head,
        words(f"{finding.route}{model} ({finding.provider})"),
        colored(
            f"{finding.id} · {detector_name(finding.detector, report.methods)} · ",
            severity,
            f" · {finding.confidence.lower()} ({confidence})"
            f" · {counted(finding.calls, 'call')}{more}",
            color,
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
    return parts
