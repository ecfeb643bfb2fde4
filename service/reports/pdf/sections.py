"""The sections of the PDF, as flowing parts."""

from collections.abc import Iterator
from typing import Final

from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import CondPageBreak, Flowable, KeepTogether, PageBreak, Spacer, Table

from detectors import charts
from detectors.contract import Finding, Report
from detectors.figures import counted, number, percent, usd
from detectors.headline import sentence
from detectors.words import CONFIDENCE_WORDS, DETECTOR_NAMES, SEVERITY_WORDS
from service.reports.pdf.labels import with_named_labels
from service.reports.pdf.looks import (
    FINDING,
    IMPACT,
    LEAD,
    QUIET,
    SEVERITIES,
    TEXT_WIDTH,
    TITLE,
    WARNING,
)
from service.reports.pdf.parts import OWN_FONT, drawing, heading, lines, tiles, words

_FULL_FINDINGS: Final = 8
_LISTED_FINDINGS: Final = 400
_LISTED_REASONS: Final = 12
_LISTED_UNPRICED: Final = 20
_PLAIN_CELLS: Final = (
    OWN_FONT,
    ("LEFTPADDING", (0, 0), (-1, -1), 0),
    ("RIGHTPADDING", (0, 0), (-1, -1), 0),
)
_SIDES: Final = (*_PLAIN_CELLS, ("VALIGN", (0, 0), (-1, -1), "TOP"))
_ENDS: Final = (*_PLAIN_CELLS, ("VALIGN", (0, 0), (-1, -1), "BOTTOM"))


_OVERLAP: Final = (
    "Findings overlap: one call can be too dear, repeated and uncached at once. Each finding "
    "states what fixing it alone would save, so their savings do not add up. Together they come "
    "to {} a month, every dollar counted once."
)


def story(report: Report) -> list[Flowable]:
    return [
        *_cover(report),
        *_charts(report),
        *_findings(report),
        *_data(report),
        *_methods(report),
    ]


def _cover(report: Report) -> Iterator[Flowable]:
    audit = report.audit
    yield words("Tallystick", ParagraphStyle("brand", FINDING, textColor="#0b6157"))
    title = words(sentence(report), TITLE)
    title.outline = ("summary", "Summary", 0)
    yield title
    if audit.first_call:
        first, last = audit.first_call[:10], (audit.last_call or audit.first_call)[:10]
        when = f"on {first}" if first == last else f"between {first} and {last}"
        yield words(
            f"From {counted(audit.records, 'call')} {when}: {usd(audit.total_spend_usd)} spent in "
            f"{counted(audit.observed_days, 'observed day')}, projected to "
            f"{report.thresholds.days_per_month} days.",
            LEAD,
        )
    yield from _warnings(report)
    yield tiles(
        [
            ("Spend a month", usd(audit.projected_spend_usd)),
            ("Avoidable a month", usd(audit.projected_savings_usd)),
            ("Share", percent(audit.savings_pct)),
            ("Findings", number(len(report.findings))),
        ]
    )
    yield Spacer(1, 18)
    if report.savings_by_detector:
        yield from drawing(charts.savings_waterfall(report), TEXT_WIDTH * 0.8)
    if len(report.findings) > 1:
        yield words(_OVERLAP.format(usd(audit.projected_savings_usd)), QUIET)


def _warnings(report: Report) -> Iterator[Flowable]:
    audit = report.audit
    if report.invalid_rows.count and audit.valid_pct < report.thresholds.warn_valid_pct:
        yield words(
            f"Only {percent(audit.valid_pct)} of the rows could be read. The numbers leave the "
            "others out.",
            WARNING,
        )
    if audit.equiv_spend:
        yield words(
            "Some of these calls were made on a flat-rate plan or through an unknown provider. "
            "Their dollars are what the vendor's list price would have been, not a bill."
        )
    if report.unpriced:
        models = len(report.unpriced) + report.other_unpriced.count
        calls = sum(one.calls for one in report.unpriced) + report.other_unpriced.calls
        yield words(
            f"{counted(models, 'model has', 'models have')} no known price: "
            f"{counted(calls, 'call')} without a price take part in no figure."
        )


def _charts(report: Report) -> Iterator[Flowable]:
    if not report.spend_by_day:
        return
    report = with_named_labels(report)
    yield PageBreak()
    yield heading("Where the money goes", "money")
    yield from drawing(charts.spend_by_day(report), TEXT_WIDTH * 0.72)
    yield Spacer(1, 18)
    half = TEXT_WIDTH * 0.47
    sides = [drawing(one(report), half) for one in (charts.spend_by_model, charts.spend_by_route)]
    yield Table([sides], colWidths=[TEXT_WIDTH / 2] * 2, style=_SIDES, hAlign="LEFT")


def _findings(report: Report) -> Iterator[Flowable]:
    findings = report.findings
    if findings:
        yield PageBreak()
    yield heading("Findings", "findings")
    if not findings:
        yield words("Nothing to fix was found in these calls.")
    for finding in findings[:_FULL_FINDINGS]:
        yield _finding(finding)
    listed = findings[_FULL_FINDINGS:_LISTED_FINDINGS]
    if listed:
        yield CondPageBreak(120)
        yield heading(counted(len(listed), "smaller finding"), "smaller-findings")
        yield lines(
            ("Finding", "Severity", "What", "Where", "Model", "Saves a month"),
            [_row(finding) for finding in listed],
            (8, 8, 27, 26, 18, 13),
        )
    if len(findings) > _LISTED_FINDINGS:
        yield words(
            f"These are the {_LISTED_FINDINGS} largest of {number(len(findings))}; the report's "
            "page offers all as CSV and JSON.",
            QUIET,
        )


def _finding(finding: Finding) -> Flowable:
    name = words(DETECTOR_NAMES.get(finding.detector, finding.detector), FINDING)
    name.outline = (finding.id, f"{finding.id}: {DETECTOR_NAMES.get(finding.detector, '')}", 1)
    head = Table(
        [[name, words(_money(finding, " a month"), IMPACT)]],
        colWidths=[TEXT_WIDTH * 0.7, TEXT_WIDTH * 0.3],
        style=_ENDS,
    )
    head.outline = name.outline
    severity = SEVERITY_WORDS.get(finding.severity, finding.severity)
    confidence = CONFIDENCE_WORDS.get(finding.confidence, "")
    colour = SEVERITIES.get(finding.severity, SEVERITIES["low"])
    parts: list[Flowable] = [
        head,
        words(_where(finding)),
        words(
            f"{finding.id} · {severity} · {finding.confidence.lower()} ({confidence}) · "
            f"{counted(finding.calls, 'call')}",
            ParagraphStyle("marks", QUIET, textColor=colour),
        ),
        words(finding.fix),
    ]
    if finding.formula:
        parts.append(words(f"How it is reckoned: {finding.formula}", QUIET))
    return KeepTogether([*parts, Spacer(1, 6)])


def _where(finding: Finding) -> str:
    model = "" if finding.route == finding.model else f" · {finding.model}"
    return f"{finding.route}{model} ({finding.provider})"


def _row(finding: Finding) -> tuple[str, ...]:
    return (
        finding.id,
        SEVERITY_WORDS.get(finding.severity, finding.severity),
        DETECTOR_NAMES.get(finding.detector, finding.detector),
        finding.route,
        finding.model,
        _money(finding, ""),
    )


def _money(finding: Finding, period: str) -> str:
    if finding.confidence == "INFORMATIONAL":
        return "no dollars claimed" if period else "–"
    return f"{usd(finding.monthly_cost_impact_usd)}{period}"


def _data(report: Report) -> Iterator[Flowable]:
    audit = report.audit
    yield CondPageBreak(160)
    yield heading("The data", "data")
    yield words(
        f"{percent(audit.valid_pct)} of the rows could be read; "
        f"{counted(report.invalid_rows.count, 'row was', 'rows were')} left out. "
        f"{counted(audit.echoes_dropped, 'call was', 'calls were')} logged twice and counted once."
    )
    reasons = sorted(report.invalid_rows.reasons.items(), key=lambda each: (-each[1], each[0]))
    if reasons:
        rows = [(reason, number(count)) for reason, count in reasons[:_LISTED_REASONS]]
        yield lines(("Why rows were left out", "Rows"), rows, (80, 20))
        yield Spacer(1, 10)
    if report.unpriced:
        unpriced = report.unpriced[:_LISTED_UNPRICED]
        rows = [(f"{one.model} ({one.provider})", number(one.calls)) for one in unpriced]
        yield lines(("Models without a known price", "Calls"), rows, (80, 20))
        yield Spacer(1, 10)
    yield words(
        f"Prices are the list prices of {report.prices.source}, version {report.prices.version}, "
        "that held at each call's own time, with their long-context tiers, cache rates and "
        "discounts of batch and flex calls. " + _negotiated(report)
    )
    yield words(
        "This audit saw token counts, times, model names and the labels that came with them, and "
        "no text of any prompt or answer."
    )


def _methods(report: Report) -> Iterator[Flowable]:
    if not report.methods:
        return
    yield CondPageBreak(200)
    yield heading("How it is judged", "methods")
    for method in report.methods:
        title = words(DETECTOR_NAMES.get(method.detector, method.title), FINDING)
        yield KeepTogether(
            [
                title,
                words(f"Fires on. {method.fires_on}", QUIET),
                words(f"Stays quiet on. {method.stays_quiet_on}", QUIET),
                words(f"Do instead. {method.do_instead}", QUIET),
            ]
        )


def _negotiated(report: Report) -> str:
    if not report.prices.negotiated:
        return "Discounts that you negotiated are not in them."
    return f"These negotiated rates took their place: {'; '.join(report.prices.negotiated)}."
