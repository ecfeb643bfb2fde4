"""The sections of the PDF, in order."""

from collections.abc import Iterator
from typing import Final

from reportlab.platypus import CondPageBreak, Flowable, KeepTogether, Spacer

from detectors import charts
from detectors.contract import Report
from detectors.wording.assumptions import CHANGED_HEADING, CHANGED_NOTE, list_changed
from detectors.wording.figures import number
from detectors.wording.names import detector_name
from detectors.wording.plan_usage import PLAN_HEADING, plan_notes, plan_tables
from detectors.wording.quality import measures, warnings
from service.reports.pdf.cover import cover
from service.reports.pdf.findings import list_findings
from service.reports.pdf.labels import with_named_labels
from service.reports.pdf.looks import FINDING, TEXT_WIDTH
from service.reports.pdf.parts import drawing, heading, led, lines, name_values, side_by_side, words

_LISTED_REASONS: Final = 12
_LISTED_UNPRICED: Final = 20
_HALF: Final = 0.47


def story(report: Report) -> list[Flowable]:
    """Return all parts of the PDF."""
    return [
        *cover(report),
        *_charts(report),
        *list_findings(report),
        *_plan_usage(report),
        *_data(report),
        *_assumptions(report),
        *_methods(report),
    ]


def _charts(report: Report) -> Iterator[Flowable]:
    if not report.spend_by_day:
        return
    report = with_named_labels(report)
    yield CondPageBreak(320)  # a small report has room for them on its first page
    yield heading("Where the money goes", "money")
    parts = [drawing(draw(report), TEXT_WIDTH * _HALF) for draw in charts.REPORT_CHARTS]
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
    yield words(
        f"List prices from {report.prices.source}, version {report.prices.version}, in effect at "
        "the time of each call, including long-context tiers, cache rates, and batch and flex "
        "discounts. " + _negotiated(report)
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


def _methods(report: Report) -> Iterator[Flowable]:
    if not report.methods:
        return
    yield CondPageBreak(200)
    yield heading("How the detectors work", "methods")
    for method in report.methods:
        title = words(detector_name(method.detector, report.methods), FINDING)
        yield KeepTogether(
            [
                title,
                led("Fires on.", method.fires_on),
                led("Stays quiet on.", method.stays_quiet_on),
                led("Do instead.", method.do_instead),
            ]
        )


def _negotiated(report: Report) -> str:
    aliases = "; ".join(report.prices.aliases)
    named = f" Your aliases: {aliases}." if aliases else ""
    if not report.prices.negotiated:
        return f"Your negotiated discounts are not included.{named}"
    return f"These negotiated rates replace them: {'; '.join(report.prices.negotiated)}.{named}"
