"""The one sentence that a report says first, on its page, in its PDF and in its mail."""

from detectors.contract import Report
from detectors.wording.figures import percent, whole_usd


def sentence(report: Report) -> str:
    audit = report.audit
    if not audit.records:
        return "There were no calls to audit."
    if not audit.total_spend_usd and report.unpriced:
        return "None of these calls has a known price."
    spend = f"You spend about {whole_usd(audit.projected_spend_usd)} a month"
    if not audit.projected_savings_usd:
        return f"{spend}; nothing to save was found."
    return (
        f"{spend}; about {whole_usd(audit.projected_savings_usd)} of it, "
        f"{percent(audit.savings_pct)}, looks avoidable."
    )
