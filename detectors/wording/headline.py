"""The headline of a report, the same on its page, in its PDF and in its mail."""

from detectors.contract import Report
from detectors.wording.figures import percent, whole_usd


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
