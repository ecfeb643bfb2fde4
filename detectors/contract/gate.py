"""Decides whether a report passes: against a severity and, if there is one, an earlier report."""

from decimal import Decimal
from typing import Final

import msgspec

from detectors.contract.comparison import NEW, WORSE, Change, list_changes
from detectors.contract.report import Report

# From the lowest to the highest.
SEVERITIES: Final = ("low", "medium", "high")


class GateRule(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest severity that fails, and by how many percent a known finding may grow."""

    fail_on: str
    allowed_growth_pct: float = 0.0

    def is_met(self, change: Change) -> bool:
        """Check whether the change fails: new or grown, and at least as severe as the rule says."""
        if change.status == NEW or (change.status == WORSE and self._has_grown(change)):
            return change.finding.severity in SEVERITIES[SEVERITIES.index(self.fail_on) :]
        return False

    def _has_grown(self, change: Change) -> bool:
        allowed = 1 + Decimal(str(self.allowed_growth_pct)) / 100
        return change.after_usd > change.before_usd * allowed


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
        return Gate(rule=rule, failures=tuple(filter(rule.is_met, _as_new(report))), others=())
    changes = list_changes(report, baseline)
    failures = tuple(filter(rule.is_met, changes))
    others = tuple(change for change in changes if change not in failures)
    return Gate(rule=rule, failures=failures, others=others)


def _as_new(report: Report) -> list[Change]:
    return [
        Change(
            status=NEW,
            finding=finding,
            before_usd=Decimal(0),
            after_usd=finding.monthly_cost_impact_usd,
            saved_usd=Decimal(0),
        )
        for finding in report.findings
    ]
