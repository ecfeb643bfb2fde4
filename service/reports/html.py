"""The report document as an HTML page. Computes no figure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from flask import Flask, render_template
from markupsafe import Markup, escape

from detectors import charts
from detectors.wording import figures
from detectors.wording.actions import (
    CHECKS_HEADING,
    action_labels,
    effort,
    how_long,
    list_checks,
    title,
    with_savings,
)
from detectors.wording.assumptions import CHANGED_HEADING, CHANGED_NOTE, list_changed
from detectors.wording.evidence import evidence_cell, evidence_columns
from detectors.wording.formula import list_steps
from detectors.wording.headline import first_actions, tiles
from detectors.wording.headline import title as headline
from detectors.wording.impact import amount, how_sure, impact_range, seen
from detectors.wording.imports import as_import
from detectors.wording.labels import inert, is_right_to_left, shortened
from detectors.wording.money import write_figure
from detectors.wording.names import (
    CONFIDENCE_NAMES,
    CONFIDENCE_WORDS,
    NO_ROUTE,
    SEVERITY_WORDS,
    detector_name,
)
from detectors.wording.projection import caution, observed, per_month
from detectors.wording.quality import measures, warnings
from detectors.wording.tail import (
    PLAN_HEADING,
    counted_once,
    past_findings,
    plan_notes,
    plan_tables,
    unlisted,
)
from service.core.time_zones import minute
from service.errors import NotFoundError
from service.models.audits.audits import Audit
from service.models.imports.copies import EarlierUpload
from service.reports.chart_columns import print_columns
from service.reports.documents import Document, ListedReport, read_listed, with_evidence
from service.reports.kept import KeptParts

# Keeps the page under 150 kB, whatever the report.
_FULL_FINDINGS: Final = 12
_SHOWN_FINDINGS: Final = 400
_CACHED_REPORTS: Final = 16  # of a quarter of a megabyte at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Retention periods and the kind of visitor, as the report page states them."""

    link_days: int
    retention_days: int
    report_days: int = 0  # how long a report is kept; 0 if it is kept until its owner deletes it
    is_sample: bool = False
    is_owned: bool = False
    is_batch: bool = False
    calls_url: str = ""  # the folder of the calls of each finding
    has_pages: bool = False  # whether its routes and models have pages, as those of the account do


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLinks:
    """The links of a report page.

    `owned` is the audit if its owner is viewing the page; only the owner gets `shared`.
    """

    pdf: str
    json: str
    findings_csv: str
    terms: Terms
    owned: Audit | None = None
    shared: "SharedLink | None" = None
    earlier: EarlierUpload | None = None  # of the same file
    changes: Sequence[str] = ()  # of "prices" and "assumptions" since the report


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLink:
    """The state of the links to a report, for its owner, and when the latest of them ends."""

    state: str
    expires_at: datetime
    opens: int


class Printed(NamedTuple):
    """A report in HTML: the part above the download buttons, and the rest."""

    opening: Markup
    rest: Markup


_kept: Final = KeptParts[Printed](_CACHED_REPORTS)


def print_report(document: Document, links: ReportLinks) -> str:
    """Render the page. The parts that are the same for every visitor are cached."""
    terms = links.terms
    printed = _kept.get((document.key, terms), lambda: _print(document, terms))
    return render_template("reports/report.html", printed=printed, links=links)


def _read(document: Document, *, is_batch: bool) -> ListedReport:
    report = read_listed(document.load())
    return as_import(report) if is_batch else report


def _print(document: Document, terms: Terms) -> Printed:
    report = _read(document, is_batch=terms.is_batch)
    findings = with_savings(report.findings)
    audit = report.audit
    days = (audit.first_call or "")[:10], (audit.last_call or "")[:10]
    kinds = sorted({finding.detector for finding in findings})
    # Most common first.
    reasons = sorted(report.invalid_rows.reasons.items(), key=lambda each: (-each[1], each[0]))
    variables = {
        "report": report,
        "terms": terms,
        "calls_url": terms.calls_url,
        "has_pages": terms.has_pages,
        "headline": headline(report),
        "changed_assumptions": list(list_changed(report)),
        "changed_heading": CHANGED_HEADING,
        "changed_note": CHANGED_NOTE,
        "charts": charts,
        "findings": findings,
        "checks": list_checks(report.findings, report.methods),
        "checks_heading": CHECKS_HEADING,
        "of": _owner_of(document),
        "days": days,
        "full": findings[:_FULL_FINDINGS],
        "listed": findings[_FULL_FINDINGS:_SHOWN_FINDINGS],
        "hidden": max(0, len(findings) - _SHOWN_FINDINGS),
        "detectors": {
            each.partition("_")[0]: detector_name(each, report.methods) for each in kinds
        },
        "reasons": [(inert(reason), figures.number(count)) for reason, count in reasons],
    }
    return Printed(
        Markup(render_template("reports/opening.html", **variables)),  # noqa: S704 - our markup
        Markup(render_template("reports/body.html", **variables)),  # noqa: S704 - our markup
    )


def print_finding(
    document: Document,
    finding_id: str,
    calls_url: str = "",
    *,
    has_pages: bool = False,
    is_batch: bool = False,
) -> str:
    """Render one finding with its evidence; an unknown ID raises `NotFoundError`."""
    report = _read(document, is_batch=is_batch)
    for finding in report.findings:
        if finding.id == finding_id:
            return render_template(
                "reports/finding_page.html",
                finding=with_evidence(finding),
                report=report,
                of=_owner_of(document),
                calls_url=calls_url,
                has_pages=has_pages,
            )
    raise NotFoundError


def _owner_of(document: Document) -> str:
    """Return what the figures of a report are of: its audit, or nothing of an account."""
    return str(document.key[0]) if isinstance(document.key, tuple) else ""


def print_missing(audit: Audit) -> str:
    """Say why there is no report: it isn't ready, the audit failed, or the report was deleted."""
    return render_template("reports/waiting.html", audit=audit)


def register_filters(app: Flask) -> None:
    app.jinja_env.filters.update(
        usd=figures.usd,
        fine_usd=figures.fine_usd,
        whole_usd=figures.whole_usd,
        as_usd=figures.as_usd,
        percent=figures.percent,
        number=figures.number,
        short_number=figures.short_number,
        counted=figures.counted,
        size=figures.size,
        change=figures.change,
        changed_from=figures.changed_from,
        day=figures.day,
        period=figures.period,
        short_day=figures.short_day,
        month=figures.month,
        inert=inert,
        shortened=shortened,
        evidence_cell=evidence_cell,
        utc_moment=utc_moment,
        isolated=isolated,
        action_labels=action_labels,
        amount=amount,
        how_sure=how_sure,
        impact_range=impact_range,
        seen=seen,
        steps=list_steps,
        sentence_case=lambda text: text[:1].upper() + text[1:],
    )
    app.jinja_env.globals.update(
        finding_title=title,
        money=money,
        marked=marked,
        effort=effort,
        how_long=how_long,
        detector_name=detector_name,
        no_route=NO_ROUTE,
        evidence_columns=evidence_columns,
        severity_words=SEVERITY_WORDS,
        confidence_words=CONFIDENCE_WORDS,
        confidence_names=CONFIDENCE_NAMES,
        tiles=tiles,
        first_actions=first_actions,
        per_month=per_month,
        caution=caution,
        observed=observed,
        warnings=warnings,
        measures=measures,
        counted_once=counted_once,
        unlisted=unlisted,
        past_findings=past_findings,
        plan_heading=PLAN_HEADING,
        plan_notes=plan_notes,
        plan_tables=plan_tables,
        print_columns=print_columns,
    )


def money(name: str, amount: Decimal, of: str = "", period: Any = "") -> Markup:
    """Write a figure by its name; see `marked`."""
    return marked(name, write_figure(name, amount), of, period)


def marked(name: str, words: str, of: str = "", period: Any = "") -> Markup:
    """Mark words as a figure, so that a test can read all figures of a page.

    `of` is what it is of, such as the account or a finding; `period` is one month or two days.
    """
    days = "/".join(map(str, period)) if isinstance(period, tuple) else period
    # Formatting the markup takes several times as long, and a page has a hundred figures.
    attributes = f'data-figure="{escape(name)}" data-of="{escape(of)}" data-period="{escape(days)}"'
    return Markup(f"<span {attributes}>{escape(words)}</span>")  # noqa: S704 - all of it is escaped


def isolated(text: str, *labels: str) -> Markup:
    """Wrap right-to-left labels in our own text, which would reorder the words around them."""
    reordering = {inert(label) for label in labels if is_right_to_left(label)}
    if not reordering:
        return escape(inert(text))
    pattern = re.compile("|".join(map(re.escape, sorted(reordering, key=len, reverse=True))))
    plain = pattern.split(inert(text))
    found = [Markup("<bdi>{}</bdi>").format(label) for label in pattern.findall(inert(text))]
    return Markup("").join(
        part for pair in zip_longest(plain, found, fillvalue="") for part in pair
    )


def utc_moment(value: str | datetime) -> Markup:
    """Format a time of a report in UTC for every reader: reports are shared, and kept as text."""
    return moment(value)


def moment(value: str | datetime, zone: str | None = None) -> Markup:
    """Format a time in a zone; the page's script adds the browser's local time on hover."""
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    # Twice as fast as `strftime`, and a list has hundreds of times.
    exact, shown = f"{when.isoformat()[:19]}Z", minute(when, zone)
    # Formatting the markup, which escapes each part, would take longer than the rest.
    return Markup(f'<time datetime="{exact}">{shown}</time>')  # noqa: S704 - digits and names
