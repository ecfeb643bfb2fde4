"""How sure monthly figures are: their unit, their range, and what they are projected from."""

from collections.abc import Mapping
from typing import Final, Protocol

from detectors.contract import AuditSummary, Report
from detectors.wording.figures import counted, length, period, usd, whole_usd

NOT_PROJECTED: Final = "none"
IMPORT: Final = "import"  # of a batch, in what people read; no document has it
TOO_LITTLE_DATA: Final = "Too little data to project a month"
_LEAST_CALLS: Final = 30
_LEAST_SPAN_DAYS: Final = 1 / 24
_MONTH_DAYS: Final = 30
# What holds 8 in 10 of predicted/true, as `benchmarks/accuracy` measures it (docs/method.md).
STATED: Final[Mapping[str, tuple[float, float]]] = {"rough": (0.5, 1.5), "very rough": (0.25, 2.1)}


class Projected(Protocol):
    """Anything with a kind of projection; null or empty for those of earlier versions."""

    @property
    def projection(self) -> str | None: ...


def is_monthly(audit: Projected) -> bool:
    """Check whether dollars are projected, and not those of the period alone."""
    return audit.projection not in (NOT_PROJECTED, IMPORT)


def per_month(audit: Projected) -> str:
    """Return what follows a projected amount: "/month", or " in this period"."""
    if is_monthly(audit):
        return "/month"
    return " in this import" if audit.projection == IMPORT else " in this period"


def caution(audit: AuditSummary) -> str:
    """Say how far the projection can be off, with the measured range; "" where it is good."""
    if not audit.metered_calls:
        return ""
    if audit.projection == IMPORT:
        return f"{TOO_LITTLE_DATA}. All figures are for this import alone."
    if not is_monthly(audit):
        # A longer one is an audit of an account, which needs every weekday.
        is_short = audit.metered_calls < _LEAST_CALLS or audit.span_days < _LEAST_SPAN_DAYS
        if audit.span_days > _MONTH_DAYS and not is_short:
            return (
                f"{TOO_LITTLE_DATA}: that takes at least 30 calls in the last {_MONTH_DAYS} days. "
                "All figures are for these days."
            )
        needed = "at least 30 calls over an hour" if is_short else "calls on 7 days"
        return f"{TOO_LITTLE_DATA}: that takes {needed}. All figures are for the days that we have."
    if audit.projection not in STATED:
        return ""
    low, high = STATED[audit.projection]
    words = (
        f"Monthly figures are {audit.projection}: they are projected from "
        f"{length(audit.span_days)}. In our tests on real traffic, 8 in 10 such projections were "
        f"{low:g} to {high:g} times the actual month."
    )
    return f"{words} Single routes can be off by far more." if "very" in audit.projection else words


def observed(report: Report) -> str:
    """Return the calls and the time that the figures come from, and how they are projected."""
    audit = report.audit
    if not audit.first_call:
        return ""
    last = audit.last_call or audit.first_call
    calls = (
        f"Based on {counted(audit.metered_calls, 'call')} ({period(audit.first_call, last)}, UTC)"
    )
    spent = f"{usd(audit.total_spend_usd)} in {counted(audit.observed_days, 'day')}"
    month = report.thresholds.days_per_month
    if not is_monthly(audit):
        return f"{calls}: {spent}, not projected."
    if audit.span_days > month or audit.monthly_factor == 1:
        return f"{calls}: {spent}. Monthly figures are those of the last {month} days."
    full = partial = ""
    if audit.observed_days == month:
        if whole_usd(audit.projected_spend_usd) == whole_usd(audit.total_spend_usd):
            return f"{calls}: {spent}."
        full, partial = "full ", " (the first and last day are partial)"
    return f"{calls}: {spent}{partial}, projected to {month} {full}days."
