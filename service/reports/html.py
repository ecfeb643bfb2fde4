"""The report document as an HTML page. Nothing is computed here but what is shown and what not."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any, Final

from flask import Flask, render_template
from markupsafe import Markup, escape

from detectors import charts, figures
from detectors.contract import Finding, Report
from detectors.headline import sentence
from detectors.labels import inert, is_right_to_left, shortened
from detectors.words import CONFIDENCE_WORDS, DETECTOR_NAMES, SEVERITY_WORDS
from service.errors import NotFoundError
from service.models.audits import Audit

# So many are shown in full, and with those so many in all: a page stays a page.
_FULL_FINDINGS: Final = 12
_SHOWN_FINDINGS: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a report's page says beside the report: other forms of it, and how long things last.

    An address is empty where there is no such form; `owned` is the audit in its owner's view.
    """

    pdf: str = ""
    json: str = ""
    findings_csv: str = ""
    link_days: int
    retention_days: int
    is_sample: bool = False
    owned: Audit | None = None
    share_url: str = ""


def print_report(document: bytes, around: Surroundings) -> str:
    report = Report.from_json(document)
    return render_template(
        "report/report.html",
        report=report,
        sentence=sentence(report),
        around=around,
        charts=charts,
        full=report.findings[:_FULL_FINDINGS],
        listed=report.findings[_FULL_FINDINGS:_SHOWN_FINDINGS],
        hidden=max(0, len(report.findings) - _SHOWN_FINDINGS),
        detectors=_present(report.findings),
        reasons=_rank(report.invalid_rows.reasons),
    )


def print_finding(document: bytes, finding_id: str) -> str:
    """One finding of the report with its evidence; raises `NotFoundError` where it has none."""
    report = Report.from_json(document)
    for finding in report.findings:
        if finding.id == finding_id:
            return render_template("report/finding_page.html", report=report, finding=finding)
    raise NotFoundError


def print_waiting(audit: Audit) -> str:
    return render_template("report/waiting.html", audit=audit)


def _present(findings: Iterable[Finding]) -> Mapping[str, str]:
    """The short codes and names of the detectors that found something."""
    found = {finding.detector for finding in findings}
    return {one[:2]: name for one, name in DETECTOR_NAMES.items() if one in found}


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
        detector_names=DETECTOR_NAMES,
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
