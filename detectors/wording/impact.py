"""What a finding is worth, how sure that is, and when its calls were seen."""

from decimal import Decimal
from typing import Protocol

from detectors.contract import AuditSummary, Finding, PastFinding, Thresholds
from detectors.wording.figures import day, whole_usd
from detectors.wording.names import CONFIDENCE_NAMES, CONFIDENCE_WORDS
from detectors.wording.projection import per_month

ESTIMATED = "ESTIMATED"
CONDITIONAL = "CONDITIONAL"
INFORMATIONAL = "INFORMATIONAL"


def severity(dollars: Decimal, thresholds: Thresholds) -> str:
    """Return how severe a finding of so many dollars is: high, medium or low."""
    if float(dollars) >= thresholds.high_severity_usd:
        return "high"
    return "medium" if float(dollars) >= thresholds.medium_severity_usd else "low"


class Sure(Protocol):
    """Anything with a confidence."""

    @property
    def confidence(self) -> str: ...


def is_priced(finding: Sure) -> bool:
    """Check whether the finding claims savings."""
    return finding.confidence != INFORMATIONAL


def has_savings(finding: Finding) -> bool:
    """Check whether the finding has dollars: only such findings are counted and listed."""
    return is_priced(finding) and finding.monthly_cost_impact_usd != 0


def amount(finding: Finding) -> str:
    if not is_priced(finding):
        return "–"
    dollars = whole_usd(finding.monthly_cost_impact_usd)
    return f"up to {dollars}" if finding.confidence == CONDITIONAL else dollars


def impact(finding: Finding, audit: AuditSummary) -> str:
    if not is_priced(finding):
        return "no savings claimed"
    return f"{amount(finding)}{per_month(audit)}"


def impact_alone(finding: Finding) -> str:
    """Return the same of a finding without its report."""
    if not is_priced(finding):
        return "no savings claimed"
    return f"{amount(finding)}{'/month' if finding.is_monthly else ' in this period'}"


def impact_range(finding: Finding) -> str:
    """Return the range of the potential savings; "" where it is unknown or a single amount.

    That of a condition begins with nothing, which its "up to" says already.
    """
    low, high = finding.impact_low, finding.impact_high
    if low is None or high is None or not is_priced(finding):
        return ""
    if finding.confidence == CONDITIONAL and not low:
        return ""
    ends, unit = (whole_usd(low), whole_usd(high)), "/month" if finding.is_monthly else ""
    return "" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}{unit}"


def how_sure(finding: Finding) -> str:
    """Return the confidence with its range or its meaning: Estimated: $1.25 to $7.50/month."""
    name = CONFIDENCE_NAMES.get(finding.confidence, finding.confidence)
    between = impact_range(finding) if finding.confidence == ESTIMATED else ""
    words = between or CONFIDENCE_WORDS.get(finding.confidence, "")
    return f"{name}: {words}" if words else name


def seen(finding: Finding | PastFinding) -> str:
    """Return when the report's calls have the finding; that of an account may be older."""
    if finding.first_seen is None or finding.last_seen is None:
        return ""
    first, last = day(finding.first_seen), day(finding.last_seen)
    days = f"on {first}" if first == last else f"from {first} to {last}"
    return f"in these calls {days} (UTC)"
