"""Compares two reports on the same traffic: text for a terminal, HTML for a notebook."""

from collections.abc import Iterator
from decimal import Decimal

import msgspec

from detectors.contract import (
    Change,
    Finding,
    Report,
    Span,
    SpendChange,
    compare_spend,
    list_changes,
    span_of,
    spend_by_model,
    spend_by_route,
)
from detectors.contract.comparison import FIXED
from detectors.html.markup import cell, paragraph, route_of, table, text
from detectors.wording.comparison import STATUS_WORDS, describe_reports
from detectors.wording.figures import counted, percent, usd
from detectors.wording.labels import inert
from detectors.wording.names import detector_name


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The changes between two reports.

    Attributes
    ----------
    before, after : Report
        The earlier and the later report.
    changes : tuple of Change
        Fixed first, then new, worse, better, gone and unchanged; most expensive first within each.
    spans : tuple of Span
        The days, calls and spend of both reports.
    routes, models : tuple of SpendChange
        The spend of each route and model, largest change first; per day if the spans differ.
    """

    before: Report
    after: Report
    changes: tuple[Change, ...]
    spans: tuple[Span, Span]
    routes: tuple[SpendChange, ...]
    models: tuple[SpendChange, ...]

    def of(self, status: str) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.status == status)

    @property
    def saved_usd(self) -> Decimal:
        """Return the realized savings of fixed findings, including overlaps between them."""
        return sum((change.saved_usd for change in self.of(FIXED)), Decimal(0))

    def __str__(self) -> str:
        lines = [*_summarize(self), ""]
        for change in self.changes:
            finding = change.finding
            lines.append(
                f"{STATUS_WORDS[change.status]:<22} {usd(change.before_usd):>12} → "
                f"{usd(change.after_usd):>12}  {self._name(finding)}: {inert(finding.route)}, "
                f"{inert(finding.model)}"
            )
        return "\n".join(lines)

    __repr__ = __str__

    def _name(self, finding: Finding) -> str:
        return detector_name(finding.detector, (*self.before.methods, *self.after.methods))

    def _repr_html_(self) -> str:
        body = "".join(paragraph(line) for line in _summarize(self))
        rows = [
            (
                text(STATUS_WORDS[change.status]),
                text(self._name(change.finding)),
                route_of(change.finding),
                usd(change.before_usd),
                usd(change.after_usd),
                usd(change.saved_usd),
            )
            for change in self.changes
        ]
        headings = (
            "Status",
            "Detector",
            "Route",
            "Per month before",
            "Per month now",
            "Realized savings",
        )
        return cell(body + table(headings, rows, numbers=range(3, 6)))


def compare(later: Report, earlier: Report) -> Comparison:
    spans = span_of(earlier), span_of(later)
    return Comparison(
        before=earlier,
        after=later,
        changes=list_changes(later, earlier),
        spans=spans,
        routes=compare_spend(spend_by_route(earlier), spend_by_route(later), spans),
        models=compare_spend(spend_by_model(earlier), spend_by_model(later), spans),
    )


def _summarize(comparison: Comparison) -> Iterator[str]:
    before, after = comparison.before.audit, comparison.after.audit
    yield (
        f"Per month: {usd(before.projected_spend_usd)} before "
        f"({percent(before.savings_pct)} avoidable), {usd(after.projected_spend_usd)} now "
        f"({percent(after.savings_pct)}). Observed on {counted(before.observed_days, 'day')} and "
        f"{counted(after.observed_days, 'day')}; all figures are per month."
    )
    fixed = comparison.of(FIXED)
    if fixed:
        yield (
            f"{counted(len(fixed), 'finding')} fixed. Realized savings: "
            f"{usd(comparison.saved_usd)} in the last {counted(after.observed_days, 'day')}."
        )
    yield from describe_reports(comparison.before, comparison.after)
