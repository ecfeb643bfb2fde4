"""The sections of the PDF, in order."""

from collections.abc import Iterator
from typing import Final

from reportlab.platypus import CondPageBreak, Flowable, KeepTogether, Spacer

from detectors import charts
from detectors.contract import Report
from detectors.wording.figures import counted, number, percent, usd
from detectors.wording.names import detector_name
from service.reports.pdf.cover import cover
from service.reports.pdf.findings import list_findings
from service.reports.pdf.labels import with_named_labels
from service.reports.pdf.looks import CHART_TITLE, FINDING, TEXT_WIDTH
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
        *_data(report),
        *_methods(report),
    ]


def _charts(report: Report) -> Iterator[Flowable]:
    if not report.spend_by_day:
        return
    report = with_named_labels(report)
    yield CondPageBreak(320)  # a small report has room for them on its first page
    yield heading("Where the money goes", "money")
    parts = [drawing(draw(report), TEXT_WIDTH * _HALF) for draw in charts.REPORT_CHARTS]
    parts.append(_quality(report))
    parts += [[]] * (len(parts) % 2)  # the last row has two columns too
    for row in zip(parts[::2], parts[1::2], strict=True):
        yield side_by_side([row], _HALF)


def _quality(report: Report) -> list[Flowable]:
    audit = report.audit
    rows = [
        ("Observed", counted(audit.observed_days, "day")),
        ("Calls", number(audit.records)),
        ("Spend in that period", usd(audit.total_spend_usd)),
        ("Valid rows", percent(audit.valid_pct)),
        ("Models not priced", number(len(report.unpriced) + report.other_unpriced.count)),
        ("Prices", f"{report.prices.source} {report.prices.version}"),
    ]
    return [words("Data quality", CHART_TITLE), name_values(rows, TEXT_WIDTH * _HALF)]


def _data(report: Report) -> Iterator[Flowable]:
    audit = report.audit
    yield CondPageBreak(160)
    yield heading("Input data", "data")
    yield words(
        f"{percent(audit.valid_pct)} of the rows could be read; "
        f"{counted(report.invalid_rows.count, 'row was', 'rows were')} excluded. "
        f"{counted(audit.echoes_dropped, 'duplicate row was', 'duplicate rows were')} removed."
    )
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
    named = f" Names of your own: {aliases}." if aliases else ""
    if not report.prices.negotiated:
        return f"Your negotiated discounts are not included.{named}"
    return f"These negotiated rates replace them: {'; '.join(report.prices.negotiated)}.{named}"
