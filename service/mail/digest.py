"""The mail with all reports of a day, for accounts that chose it. The sweeper posts it."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from detectors.wording.figures import counted, usd
from service.config import Config
from service.mail.report_ready import report_url


def write_digest(config: Config, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The subject, and what the templates print. Links are made now: nothing at rest opens them."""
    site, days = config.base_url, _days(parameters["since"], parameters["day"])
    reports = counted(parameters["audits"], "report")
    spend = usd(Decimal(parameters["spend_usd"]))
    words = {
        "headline": f"{reports} ready {days}",
        "totals": f"{counted(parameters['records'], 'call')} for {spend} in list prices",
        "listed": [_told(config, one) for one in parameters["listed"]],
        "more": parameters["audits"] - len(parameters["listed"]),
        "days": config.report_link_days,
        "dashboard_url": f"{site}/dashboard",
        "settings_url": f"{site}/settings",
        "site": site,
    }
    return f"{reports} ready {days}", words


def _days(since: str, day: str) -> str:
    """One day as a rule; more where the sweeper was down meanwhile."""
    first, last = date.fromisoformat(since), date.fromisoformat(day)
    shown = f"{last.day} {last:%B %Y}"
    return f"on {shown}" if first >= last else f"from {first.day} {first:%B} to {shown}"


def _told(config: Config, one: Mapping[str, Any]) -> dict[str, str]:
    finished_at = datetime.fromisoformat(one["finished_at"])
    found = counted(one["findings"], "finding")
    saving = usd(Decimal(one["savings_usd"]))
    return {
        "url": report_url(config, one["audit_id"]),
        "when": f"{finished_at:%H:%M} UTC",
        "what": f"{counted(one['records'], 'call')}, {usd(Decimal(one['spend_usd']))}",
        "found": f"{found}, about {saving} a month avoidable" if one["findings"] else "no findings",
    }
