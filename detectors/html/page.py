"""A report as a self-contained HTML file: no scripts, fonts or other files."""

import os
from collections.abc import Iterator
from html import escape
from pathlib import Path

from detectors import charts
from detectors.contract import Method, Report
from detectors.html.findings import (
    finding_body,
    first_screen,
    list_findings,
    show_assumptions,
    show_plan_usage,
    show_quality,
)
from detectors.html.markup import STYLE, figure, paragraph, table, text
from detectors.wording.headline import sentence
from detectors.wording.names import detector_name
from detectors.wording.projection import per_month
from detectors.wording.tail import footnotes, past_findings

_FULL = 100  # findings in full; the others are in a table
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def save(report: Report, file: str | os.PathLike[str]) -> None:
    path = Path(file)
    if path.suffix.lower() not in (".html", ".json"):
        raise ValueError("expected a file name that ends in .html or .json")
    is_page = path.suffix.lower() == ".html"
    path.write_bytes(print_page(report).encode() if is_page else report.to_json() + b"\n")


def print_page(report: Report) -> str:
    title = escape(sentence(report))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>body{{margin:0}}{STYLE}</style></head>"
        f'<body><main class="tallystick">{"".join(_parts(report))}</main></body></html>\n'
    )


def _parts(report: Report) -> Iterator[str]:
    yield first_screen(report)
    if report.audit.metered_calls or not report.plan_usage:
        yield "<h2>Where the money goes</h2>"
        for draw in (charts.savings_waterfall, *charts.REPORT_CHARTS):
            yield figure(draw(report))
    yield "<h2>Findings</h2>"
    yield from (finding_body(finding, report.methods) for finding in report.findings[:_FULL])
    if report.findings[_FULL:]:
        yield list_findings(report.findings[_FULL:], report.methods, per_month(report.audit))
    if not report.findings:
        yield paragraph("We found nothing to fix in these calls.")
    yield from (paragraph(line, "quiet") for line in footnotes(report))
    if report.no_longer_happening:
        yield "<h2>No longer happening</h2>"
        yield paragraph("All calls of these findings are older than the projected period.")
        yield "".join(map(paragraph, past_findings(report)))
    yield show_plan_usage(report)
    yield show_quality(report)
    if report.unpriced:
        yield "<h2>Not priced</h2>"
        yield paragraph("These models have no known price and are excluded from dollar figures.")
        yield table(
            ("Model", "Provider", "Calls", "Tokens", "Closest known names"),
            (
                (
                    text(entry.model),
                    text(entry.provider),
                    f"{entry.calls:,}",
                    f"{entry.tokens:,}",
                    text(entry.closest_names),
                )
                for entry in report.unpriced
            ),
            numbers=[2, 3],
        )
    yield show_assumptions(report)
    yield f"<h2>Prices</h2>{paragraph(prices(report))}"
    yield "".join(map(paragraph, (*report.prices.negotiated, *report.prices.aliases)))
    if report.methods:
        yield "<h2>How the detectors work</h2>" + "".join(map(_method, report.methods))


def prices(report: Report) -> str:
    words = (
        f"List prices of {report.prices.source}, version {report.prices.version}: in effect "
        "at the time of each call, including long-context tiers, cache rates and batch and flex "
        "discounts."
    )
    if report.prices.negotiated:
        return f"{words} These negotiated rates replace them:"
    return f"{words} No negotiated rates were given."


def _method(method: Method) -> str:
    parts = {
        "Costs you": method.costs_you,
        "Fires on": method.fires_on,
        "Stays quiet on": method.stays_quiet_on,
        "Do instead": method.do_instead,
        "Sources": method.sources,
    }
    name = detector_name(method.detector, [method])
    body = "".join(paragraph(f"{heading}. {words}") for heading, words in parts.items())
    return f"<details><summary>{text(name)}</summary>{body}</details>"
