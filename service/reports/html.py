"""The report document as an HTML page. Nothing is computed here but what is shown and what not."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from flask import Flask, render_template
from markupsafe import Markup, escape

from detectors import charts
from detectors.wording import figures
from detectors.wording.headline import sentence
from detectors.wording.labels import inert, is_right_to_left, shortened
from detectors.wording.names import CONFIDENCE_WORDS, SEVERITY_WORDS, detector_name
from service.errors import NotFoundError
from service.models.audits.audits import Audit
from service.reports.documents import Document, ListedReport, read_listed, with_evidence
from service.reports.kept_parts import KeptParts

# So many are shown in full, and with those so many in all: a page stays a page.
_FULL_FINDINGS: Final = 12
_SHOWN_FINDINGS: Final = 400
_MOST_KEPT: Final = 16  # of a quarter of a megabyte at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a report's page says of how long things last, and to whom it says so."""

    link_days: int
    retention_days: int
    is_sample: bool = False
    is_owned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLinks:
    """What a report's page says beside the report: other forms of it, and on which terms.

    `owned` is the audit in its owner's view, who gets an address to share.
    """

    pdf: str
    json: str
    findings_csv: str
    terms: Terms
    owned: Audit | None = None
    share_url: str = ""


class Printed(NamedTuple):
    """A report in HTML: what stands above its addresses, and all the rest."""

    opening: Markup
    rest: Markup


_kept: Final = KeptParts[Printed](_MOST_KEPT)


def print_report(document: Document, links: ReportLinks) -> str:
    """The whole page. What is the same for every visitor is printed once and kept a while."""
    terms = links.terms
    printed = _kept.get((document.key, terms), lambda: _print(read_listed(document.load()), terms))
    return render_template("report/report.html", printed=printed, links=links)


def _print(report: ListedReport, terms: Terms) -> Printed:
    facts = _facts(report, terms)
    return Printed(
        Markup(render_template("report/opening.html", **facts)),  # noqa: S704 - its own markup
        Markup(render_template("report/body.html", **facts)),  # noqa: S704 - its own markup
    )


def _facts(report: ListedReport, terms: Terms) -> dict[str, Any]:
    return {
        "report": report,
        "terms": terms,
        "sentence": sentence(report),
        "charts": charts,
        "full": report.findings[:_FULL_FINDINGS],
        "listed": report.findings[_FULL_FINDINGS:_SHOWN_FINDINGS],
        "hidden": max(0, len(report.findings) - _SHOWN_FINDINGS),
        "detectors": _present(report),
        "reasons": _rank(report.invalid_rows.reasons),
    }


def print_finding(document: Document, finding_id: str) -> str:
    """One finding of the report with its evidence; raises `NotFoundError` where it has none."""
    report = read_listed(document.load())
    for finding in report.findings:
        if finding.id == finding_id:
            return render_template(
                "report/finding_page.html", finding=with_evidence(finding), report=report
            )
    raise NotFoundError


def print_waiting(audit: Audit) -> str:
    return render_template("report/waiting.html", audit=audit)


def _present(report: ListedReport) -> Mapping[str, str]:
    """Return the short codes and names of the detectors that found something."""
    found = sorted({finding.detector for finding in report.findings})
    return {each.partition("_")[0]: detector_name(each, report.methods) for each in found}


def _rank(reasons: Mapping[str, int]) -> list[tuple[str, str]]:
    """Why rows were left out, the commonest first."""
    ranked = sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0]))
    return [(inert(reason), figures.number(count)) for reason, count in ranked]


def register_filters(app: Flask) -> None:
    app.jinja_env.filters.update(
        usd=figures.usd,
        whole_usd=figures.whole_usd,
        percent=figures.percent,
        number=figures.number,
        short_number=figures.short_number,
        counted=figures.counted,
        inert=inert,
        shortened=shortened,
        moment=moment,
        isolated=isolated,
    )
    app.jinja_env.globals.update(
        detector_name=detector_name,
        severity_words=SEVERITY_WORDS,
        confidence_words=CONFIDENCE_WORDS,
    )


def isolated(text: str, *labels: str) -> Markup:
    """Our own words about labels, none of which can turn the order of the words around it."""
    turning = {inert(one) for one in labels if is_right_to_left(one)}
    if not turning:
        return escape(inert(text))
    pattern = re.compile("|".join(map(re.escape, sorted(turning, key=len, reverse=True))))
    plain = pattern.split(inert(text))
    found = [Markup("<bdi>{}</bdi>").format(one) for one in pattern.findall(inert(text))]
    return Markup("").join(
        part for pair in zip_longest(plain, found, fillvalue="") for part in pair
    )


def moment(value: str | datetime) -> Any:
    """A time in UTC, to the minute; the page's script adds the reader's own on hover."""
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    exact, shown = when.strftime("%Y-%m-%dT%H:%M:%SZ"), when.strftime("%Y-%m-%d %H:%M")
    return Markup('<time datetime="{}">{} UTC</time>').format(exact, shown)
