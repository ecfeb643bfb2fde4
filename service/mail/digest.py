"""The daily digest of reports, for accounts that chose it. The sweeper posts it."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from detectors.wording.figures import counted, day, usd, whole_usd
from detectors.wording.imports import LEAST_DAYS, show_savings
from service.config import Config
from service.mail.report_ready import report_url


class _Summary(NamedTuple):
    """The sums of a listed audit."""

    projection: str | None
    observed_days: int
    monthly_factor: float | None
    projected_savings_usd: Decimal
    conditional_savings_high_usd: Decimal


def write_digest(config: Config, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the subject and the template variables. Links are signed now and never stored."""
    site = config.base_url
    # Usually one day, or several after an outage of the sweeper.
    first, last = (date.fromisoformat(parameters[name]) for name in ("since", "day"))
    days = f"on {day(last)}" if first >= last else f"from {day(first)} to {day(last)}"
    headline = f"{counted(parameters['audits'], 'report')} ready {days} (UTC)"
    spend = usd(Decimal(parameters["spend_usd"]))
    words = {
        "headline": headline,
        "totals": f"{counted(parameters['records'], 'call')} for {spend} at list prices",
        "listed": [_describe(config, audit) for audit in parameters["listed"]],
        "more": parameters["audits"] - len(parameters["listed"]),
        "days": config.report_link_days,
        "dashboard_url": f"{site}/dashboard",
        "settings_url": f"{site}/settings",
        "site": site,
    }
    return headline, words


def _describe(config: Config, audit: Mapping[str, Any]) -> dict[str, str]:
    finished_at, found = datetime.fromisoformat(audit["finished_at"]), "no findings"
    if audit["findings"]:
        # Mails that were posted by an earlier release lack some of these.
        summary = _Summary(
            projection=audit.get("projection"),
            observed_days=audit.get("observed_days", LEAST_DAYS),
            monthly_factor=audit.get("monthly_factor"),
            projected_savings_usd=Decimal(audit["savings_usd"]),
            conditional_savings_high_usd=Decimal(audit.get("conditional_usd") or 0),
        )
        shown = show_savings(summary, is_batch=True)
        avoidable = f"{whole_usd(shown.avoidable_usd)}{shown.unit} avoidable"
        found = f"{counted(audit['findings'], 'finding')}, {avoidable}"
        if shown.conditional_usd:
            found += f", up to {whole_usd(shown.conditional_usd)} more with cheaper models"
    return {
        "url": report_url(config, audit),
        "when": f"{finished_at:%H:%M} UTC",
        "what": f"{counted(audit['records'], 'call')}, {usd(Decimal(audit['spend_usd']))}",
        "found": found,
    }
