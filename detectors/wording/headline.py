"""The headline of a report and the line below it, the same on every surface."""

from detectors.contract import Report
from detectors.wording.figures import counted, percent, period, usd, whole_usd


def sentence(report: Report) -> str:
    """Return monthly spend and avoidable spend as one line."""
    audit = report.audit
    if not audit.records:
        return "There were no calls to audit."
    if not audit.total_spend_usd and report.unpriced:
        return "None of these calls has a known price."
    spend = f"You spend about {whole_usd(audit.projected_spend_usd)}/month"
    if not audit.projected_savings_usd:
        return f"{spend}. We found no avoidable spend."
    return (
        f"{spend}. About {whole_usd(audit.projected_savings_usd)} of it "
        f"({percent(audit.savings_pct)}) is avoidable."
    )


def basis(report: Report) -> str:
    """Return the calls, the days and the prices that the figures are calculated from."""
    audit = report.audit
    first, last = audit.first_call, audit.last_call or audit.first_call
    span = f" ({period(first, last)})" if first and last else ""
    negotiated = ", with negotiated rates" if report.prices.negotiated else ""
    return (
        f"{usd(audit.total_spend_usd)} in {counted(audit.observed_days, 'day')}{span} · "
        f"{counted(audit.records, 'call')} · prices from {report.prices.source} "
        f"{report.prices.version}{negotiated}"
    )
