"""The headline of a report and the line below it, the same on every surface."""

from decimal import Decimal
from itertools import islice
from typing import Final, NamedTuple

from detectors.contract import AuditSummary, Finding, Report
from detectors.wording.figures import counted, percent, period, usd, whole_usd
from detectors.wording.hero import make_hero
from detectors.wording.projection import is_monthly, per_month

FIRST_ACTIONS: Final = 3


class Tile(NamedTuple):
    """One figure of the first screen, with a line below it."""

    label: str
    value: str
    aside: str
    figure: str  # its name in `money.FIGURES`


def title(report: Report) -> str:
    """Return what could be saved, as the dashboard says it; else what there is to say instead.

    The sums, with how sure they are, have to stand below it.
    """
    hero = make_hero(report.audit)
    has_sums = report.audit.verified_savings_usd is not None
    return hero.sentence if hero.parts and has_sums else sentence(report)


def sentence(report: Report) -> str:
    """Return monthly spend and, by how sure they are, the three sums of avoidable spend."""
    audit = report.audit
    if not audit.records:
        return "There were no calls to audit."
    if not audit.metered_calls and report.plan_usage:
        value = usd(report.plan_usage.value_usd)
        return f"All of these calls are included in a plan. Their value is {value}."
    if not audit.total_spend_usd and report.unpriced:
        return "None of these calls has a known price."
    spend = whole_usd(audit.projected_spend_usd)
    spending = f"about {spend}/month" if is_monthly(audit) else f"{spend}{per_month(audit)}"
    spending = f"You {'spend' if is_monthly(audit) else 'spent'} {spending}"
    if audit.verified_savings_usd is None:
        # A document of an earlier version, which has a single sum.
        if not audit.projected_savings_usd:
            return f"{spending}. We found no avoidable spend."
        sum_of_all = whole_usd(audit.projected_savings_usd)
        return f"{spending}. About {sum_of_all} of it ({percent(audit.savings_pct)}) is avoidable."
    savings = avoidable(audit)
    return f"{spending}. {f'Avoidable: {savings}.' if savings else 'We found no avoidable spend.'}"


def avoidable(audit: AuditSummary) -> str:
    """Return the sums of avoidable spend as one phrase: verified, estimated, conditional."""
    parts = list[str]()
    unit = "/month" if is_monthly(audit) else ""  # the spend before it names the period
    beyond = ""
    if audit.verified_savings_usd:
        parts.append(f"{whole_usd(audit.verified_savings_usd)}{unit} verified")
        unit, beyond = "", " more"
    if audit.estimated_savings_usd:
        span = savings_range(audit.estimated_savings_low_usd, audit.estimated_savings_high_usd)
        more = f"about {whole_usd(audit.estimated_savings_usd)}{unit}{beyond} estimated"
        parts.append(f"{more} ({span})" if span else more)
        unit, beyond = "", " more"
    conditional = audit.conditional_savings_high_usd or audit.conditional_savings_usd
    if conditional:
        most = whole_usd(conditional)
        parts.append(f"up to {most}{unit}{beyond} if cheaper models pass your evaluation")
    if len(parts) < 3:
        return " and ".join(parts)
    return f"{', '.join(parts[:-1])}, and {parts[-1]}"


def savings_range(low: Decimal | None, high: Decimal | None) -> str:
    """Return the range of savings: $700 to $1,500; "" where it is unknown or a single amount."""
    if low is None or high is None:
        return ""
    ends = whole_usd(low), whole_usd(high)
    return "" if ends[0] == ends[1] else " to ".join(ends)


def tiles(audit: AuditSummary) -> tuple[Tile, ...]:
    days = f"{usd(audit.total_spend_usd)} in {counted(audit.observed_days, 'day')}"
    label, below = ("Monthly spend", days)
    if not is_monthly(audit):
        label, below = (f"Spend{per_month(audit)}", counted(audit.metered_calls, "call"))
    spend = Tile(label, whole_usd(audit.projected_spend_usd), below, "monthly_spend")
    if audit.verified_savings_usd is None:
        share = f"{percent(audit.savings_pct)} of your spend"
        return spend, Tile(
            "Avoidable spend", whole_usd(audit.projected_savings_usd), share, "avoidable"
        )
    verified = whole_usd(audit.verified_savings_usd)
    most = whole_usd(audit.conditional_savings_high_usd or Decimal(0))
    span = savings_range(audit.estimated_savings_low_usd, audit.estimated_savings_high_usd)
    about = f"about {whole_usd(audit.estimated_savings_usd or Decimal(0))}"
    basis = _in_a_month(audit, span or "based on stated assumptions")
    return (
        spend,
        Tile(
            "Avoidable, verified",
            verified,
            _in_a_month(audit, "from billed token counts"),
            "verified",
        ),
        Tile("Avoidable, estimated", about, basis, "estimated"),
        Tile(
            "With cheaper models",
            f"up to {most}",
            _in_a_month(audit, "if they pass your evaluation"),
            "conditional",
        ),
    )


def _in_a_month(audit: AuditSummary, words: str) -> str:
    """Return the line below a figure, with its unit first: Per month, $49 to $341."""
    return f"Per month, {words}" if is_monthly(audit) else f"{words[:1].upper()}{words[1:]}"


def first_actions(report: Report) -> tuple[Finding, ...]:
    priced = (finding for finding in report.findings if finding.monthly_cost_impact_usd > 0)
    return tuple(islice(priced, FIRST_ACTIONS))


def basis(report: Report) -> str:
    """Return the calls, the days and the prices that the figures are calculated from."""
    audit = report.audit
    first, last = audit.first_call, audit.last_call or audit.first_call
    span = f" ({period(first, last)}, UTC)" if first and last else ""
    negotiated = ", with negotiated rates" if report.prices.negotiated else ""
    prices = f"prices from {report.prices.source} {report.prices.version}{negotiated}"
    if audit.records and not audit.metered_calls:
        return f"{counted(audit.records, 'call')} of a plan · {prices}"
    return (
        f"{usd(audit.total_spend_usd)} in {counted(audit.observed_days, 'day')}{span} · "
        f"{counted(audit.metered_calls, 'call')} · {prices}"
    )


def short_title(audit: AuditSummary) -> str:
    """Return verified and estimated savings of the spend, for a title without room for more."""
    savings = whole_usd(audit.projected_savings_usd)
    return f"{savings} of {whole_usd(audit.projected_spend_usd)}{per_month(audit)} is avoidable"
