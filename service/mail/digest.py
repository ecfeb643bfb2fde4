"""The daily digest of reports, for accounts that chose it. The sweeper posts it."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from detectors.wording.figures import counted, day, usd
from detectors.wording.imports import LEAST_DAYS
from detectors.wording.projection import NOT_PROJECTED
from service.config import Config
from service.mail.report_ready import report_url


def write_digest(config: Config, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the subject and the template variables. Links are signed now and never stored."""
    first, last = date.fromisoformat(parameters["since"]), date.fromisoformat(parameters["day"])
    # Usually one day, or several after an outage of the sweeper.
    days = f"on {day(last)}" if first >= last else f"from {day(first)} to {day(last)}"
    site, days = config.base_url, f"{days} (UTC)"
    reports = counted(parameters["audits"], "report")
    spend = usd(Decimal(parameters["spend_usd"]))
    words = {
        "headline": f"{reports} ready {days}",
        "totals": f"{counted(parameters['records'], 'call')} for {spend} at list prices",
        "listed": [_describe(config, audit) for audit in parameters["listed"]],
        "more": parameters["audits"] - len(parameters["listed"]),
        "days": config.report_link_days,
        "dashboard_url": f"{site}/dashboard",
        "settings_url": f"{site}/settings",
        "site": site,
    }
    return f"{reports} ready {days}", words


def _describe(config: Config, audit: Mapping[str, Any]) -> dict[str, str]:
    finished_at = datetime.fromisoformat(audit["finished_at"])
    # Mails that were posted by an earlier release lack some of these.
    is_projected = audit.get("projection") != NOT_PROJECTED
    is_short = audit.get("observed_days", LEAST_DAYS) < LEAST_DAYS
    factor = Decimal(str(audit.get("monthly_factor") or 1)) if is_projected and is_short else 1
    unit = "/month" if is_projected and not is_short else ""
    more = Decimal(audit.get("conditional_usd") or 0) / factor
    found = counted(audit["findings"], "finding") if audit["findings"] else "no findings"
    if audit["findings"]:
        found += f", {usd(Decimal(audit['savings_usd']) / factor)}{unit} avoidable"
        found += f", up to {usd(more)} more with cheaper models" if more else ""
    return {
        "url": report_url(config, audit),
        "when": f"{finished_at:%H:%M} UTC",
        "what": f"{counted(audit['records'], 'call')}, {usd(Decimal(audit['spend_usd']))}",
        "found": found,
    }
