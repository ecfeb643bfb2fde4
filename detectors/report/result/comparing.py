"""Compares two reports on the same traffic, per month."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from detectors.contract import Finding, Report
from detectors.html.markup import cell, paragraph, route_of, table, text
from detectors.wording.figures import counted, percent, usd
from detectors.wording.labels import inert
from detectors.wording.names import detector_name
from detectors.wording.projection import is_monthly

# The statuses of a finding.
FIXED, BETTER, GONE, UNCHANGED, WORSE, NEW = (
    "fixed", "better", "gone", "unchanged", "worse", "new",
)  # fmt: skip
_ORDER: Final = (FIXED, NEW, WORSE, BETTER, GONE, UNCHANGED)
_WORDS: Final = {
    FIXED: "Fixed",
    NEW: "New",
    WORSE: "Worse",
    BETTER: "Better",
    GONE: "Gone with its traffic",
    UNCHANGED: "Unchanged",
}
_CENT: Final = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A finding that is in one of the reports or in both.

    Attributes
    ----------
    status : str
        ``fixed``: no longer found, although its route has calls. ``gone``: its route has no calls.
        ``better`` or ``worse``: by at least a cent per month, else ``unchanged``. ``new``.
    finding : Finding
        From the later report; from the earlier report if it is fixed or gone.
    before_usd, after_usd : Decimal
        US dollars per month in the earlier and the later report; 0 without such a finding.
    saved_usd : Decimal
        Realized savings over the days of the later report; negative if it got worse, 0 if its
        traffic is gone.
    """

    status: str
    finding: Finding
    before_usd: Decimal
    after_usd: Decimal
    saved_usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The changes between two reports.

    Attributes
    ----------
    before, after : Report
        The earlier and the later report.
    changes : tuple of Change
        Fixed first, then new, worse, better, gone and unchanged; most expensive first within each.
    """

    before: Report
    after: Report
    changes: tuple[Change, ...]

    def of(self, status: str) -> tuple[Change, ...]:
        """Return the changes of one status."""
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
                f"{_WORDS[change.status]:<22} {usd(change.before_usd):>12} → "
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
                text(_WORDS[change.status]),
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
    found = sorted(_changes(later, earlier), key=_rank)
    return Comparison(before=earlier, after=later, changes=tuple(found))


def _rank(change: Change) -> tuple[int, Decimal, str]:
    largest = max(change.before_usd, change.after_usd)
    return _ORDER.index(change.status), -largest, change.finding.id


_Key = tuple[str, str, str, str, str]


def _by_key(report: Report) -> dict[_Key, Finding]:
    return {(f.detector, f.kind, f.route, f.provider, f.model): f for f in report.findings}


def _changes(later: Report, earlier: Report) -> Iterator[Change]:
    before, after = _by_key(earlier), _by_key(later)
    factor = _factor(later)
    for key in {**before, **after}:
        was, is_now = before.get(key), after.get(key)
        old = was.monthly_cost_impact_usd if was else Decimal(0)
        new = is_now.monthly_cost_impact_usd if is_now else Decimal(0)
        finding = is_now or was
        if finding is None:  # pragma: no cover - every key is in a report
            continue
        status = _status(was, is_now, later)
        saved = Decimal(0) if status in (GONE, NEW) else (old - new) / factor
        yield Change(status=status, finding=finding, before_usd=old, after_usd=new, saved_usd=saved)


def _factor(report: Report) -> Decimal:
    """Return what the report's dollars were multiplied with."""
    if report.audit.monthly_factor:
        return Decimal(str(report.audit.monthly_factor))
    return Decimal(report.thresholds.days_per_month) / report.audit.observed_days


def _status(was: Finding | None, is_now: Finding | None, later: Report) -> str:
    if was is None:
        return NEW
    if is_now is None:
        return FIXED if _has_traffic(was, later) else GONE
    difference = is_now.monthly_cost_impact_usd - was.monthly_cost_impact_usd
    if abs(difference) < _CENT:
        return UNCHANGED
    return WORSE if difference > 0 else BETTER


def _has_traffic(finding: Finding, report: Report) -> bool:
    """Check whether the finding's route still has calls, as far as the report lists routes."""
    routes = {spend.route for spend in report.spend_by_route}
    if finding.route in routes or report.other_routes.count:
        return True
    models = {spend.model for spend in report.spend_by_model}
    # Without tag and endpoint, a finding's route is its model.
    return finding.route == finding.model and "" in routes and finding.model in models


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
    if not (is_monthly(before) and is_monthly(after)):
        yield "A report is too short for monthly figures: its amounts are those of its period."
    if comparison.before.prices != comparison.after.prices:
        yield "The reports use different prices, which can change dollar figures."
    if comparison.before.thresholds != comparison.after.thresholds:
        yield "The reports use different thresholds, which can change findings."
