"""Compares two reports, or the spend of two periods: pure functions of documents and sums."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import ceil
from typing import Final

import msgspec

from detectors.contract.findings import Finding
from detectors.contract.report import Report

# From the lowest to the highest.
SEVERITIES: Final = ("low", "medium", "high")
# The statuses of a finding, in the order of lists.
FIXED, NEW, WORSE, BETTER, GONE, UNCHANGED = CHANGE_STATUSES = (
    "fixed", "new", "worse", "better", "gone", "unchanged",
)  # fmt: skip
_CENT: Final = Decimal("0.01")
_NANO_USD: Final = Decimal("1e-9")
# A route, or a provider and a model.
Labels = tuple[str, ...]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared: its days in UTC, how many they are, its calls and its spend.

    A report's number of days is the time from its first to its last call, rounded up.
    """

    first: date | None
    last: date | None
    days: int
    calls: int
    spend_usd: Decimal


class SpendChange(msgspec.Struct, frozen=True, kw_only=True):
    """The spend of a route or a model before and after; per day if the spans differ in length."""

    labels: Labels
    before_usd: Decimal
    after_usd: Decimal

    @property
    def change_usd(self) -> Decimal:
        return self.after_usd - self.before_usd

    @property
    def change_pct(self) -> float | None:
        """Return the change in percent, or None without spend before: then it is new."""
        return float(self.change_usd / self.before_usd * 100) if self.before_usd else None


class Change(msgspec.Struct, frozen=True, kw_only=True):
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


def is_per_day(before: Span, after: Span) -> bool:
    """Check whether spend is compared per day, because the spans differ in length."""
    return before.days != after.days


def compare_spend(
    before: Mapping[Labels, Decimal], after: Mapping[Labels, Decimal], spans: tuple[Span, Span]
) -> tuple[SpendChange, ...]:
    """Return the change of each route or model, largest first, ties by name."""
    per_day = is_per_day(*spans)
    days = [span.days if per_day else 1 for span in spans]
    changes = [
        SpendChange(
            labels=labels,
            before_usd=_share(before.get(labels, Decimal(0)), days[0]),
            after_usd=_share(after.get(labels, Decimal(0)), days[1]),
        )
        for labels in {**before, **after}
    ]
    return tuple(sorted(changes, key=lambda each: (-abs(each.change_usd), each.labels)))


def _share(amount: Decimal, days: int) -> Decimal:
    return (amount / days).quantize(_NANO_USD) or Decimal(0)


def find_status(before: Decimal | None, after: Decimal | None, *, has_traffic: bool) -> str:
    """Return the status of a finding with these dollars; None is one that was not found.

    `has_traffic` says whether its route has calls in the later report or period.
    """
    if before is None:
        return NEW
    if after is None:
        return FIXED if has_traffic else GONE
    if abs(after - before) < _CENT:
        return UNCHANGED
    return WORSE if after > before else BETTER


def span_of(report: Report) -> Span:
    audit = report.audit
    first, last = _moment(audit.first_call), _moment(audit.last_call)
    elapsed = last - first if first and last else timedelta()
    return Span(
        first=first.date() if first else None,
        last=last.date() if last else None,
        days=max(1, ceil(elapsed / timedelta(days=1))),
        calls=audit.metered_calls,
        spend_usd=audit.total_spend_usd,
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def spend_by_route(report: Report) -> dict[Labels, Decimal]:
    return {(each.route,): each.spend_usd for each in report.spend_by_route}


def spend_by_model(report: Report) -> dict[Labels, Decimal]:
    return {(each.provider, each.model): each.spend_usd for each in report.spend_by_model}


def list_changes(later: Report, earlier: Report) -> tuple[Change, ...]:
    """Return the findings of both reports by status, most expensive first within each."""
    before, after = _by_key(earlier), _by_key(later)
    factor = Decimal(later.thresholds.days_per_month) / (later.audit.observed_days or 1)
    if later.audit.monthly_factor:
        factor = Decimal(str(later.audit.monthly_factor))
    routes = {spend.route for spend in later.spend_by_route}
    models = {spend.model for spend in later.spend_by_model}
    found = []
    for key in {**before, **after}:
        was, is_now = before.get(key), after.get(key)
        finding = is_now or was
        if finding is None:  # pragma: no cover - every key is in a report
            continue
        old, new = (each.monthly_cost_impact_usd if each else None for each in (was, is_now))
        has_traffic = is_now is None and (
            finding.route in routes
            or later.other_routes.count > 0
            # Without tag and endpoint, a finding's route is its model.
            or (finding.route == finding.model and "" in routes and finding.model in models)
        )
        status = find_status(old, new, has_traffic=has_traffic)
        old, new = old or Decimal(0), new or Decimal(0)
        saved = Decimal(0) if status in (GONE, NEW) else (old - new) / factor
        found.append(
            Change(status=status, finding=finding, before_usd=old, after_usd=new, saved_usd=saved)
        )

    def rank(change: Change) -> tuple[int, Decimal, str]:
        largest = max(change.before_usd, change.after_usd)
        return CHANGE_STATUSES.index(change.status), -largest, change.finding.id

    return tuple(sorted(found, key=rank))


def list_priced_changes(later: Report, earlier: Report) -> tuple[Change, ...]:
    """Return the changes of findings with savings in either report."""
    changes = list_changes(later, earlier)
    return tuple(change for change in changes if change.before_usd or change.after_usd)


_Key = tuple[str, str, str, str, str]


def _by_key(report: Report) -> dict[_Key, Finding]:
    return {(f.detector, f.kind, f.route, f.provider, f.model): f for f in report.findings}


class GateRule(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest severity that fails, and by how many percent a known finding may grow."""

    fail_on: str
    allowed_growth_pct: float = 0.0

    def is_met(self, change: Change) -> bool:
        """Check whether the change fails: new or grown, and at least as severe as the rule says."""
        allowed = change.before_usd * (1 + Decimal(str(self.allowed_growth_pct)) / 100)
        has_grown = change.status == WORSE and change.after_usd > allowed
        is_severe = change.finding.severity in SEVERITIES[SEVERITIES.index(self.fail_on) :]
        return is_severe and (change.status == NEW or has_grown)


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What fails the rule, and the other findings of the report and its baseline.

    Both are ordered by status, most expensive first within each. `others` is empty without a
    baseline.
    """

    rule: GateRule
    failures: tuple[Change, ...]
    others: tuple[Change, ...]


def check_gate(report: Report, baseline: Report | None, rule: GateRule) -> Gate:
    """Check every finding without a baseline, or else those that are new or have grown."""
    if baseline is None:
        none = Decimal(0)
        new = (
            Change(
                status=NEW,
                finding=finding,
                before_usd=none,
                after_usd=finding.monthly_cost_impact_usd,
                saved_usd=none,
            )
            for finding in report.findings
        )
        return Gate(rule=rule, failures=tuple(filter(rule.is_met, new)), others=())
    changes = list_changes(report, baseline)
    failures = tuple(filter(rule.is_met, changes))
    others = tuple(change for change in changes if change not in failures)
    return Gate(rule=rule, failures=failures, others=others)
