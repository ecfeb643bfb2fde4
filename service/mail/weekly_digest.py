"""The weekly digest, for accounts that chose it. It is the default of new accounts."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from detectors.wording.figures import change, counted, day, usd
from detectors.wording.names import detector_name
from service.config import Config
from service.mail.spend_notice import describe_budget


def write_weekly_digest(
    config: Config, parameters: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the subject and the template variables."""
    site = config.base_url
    spend, previous = (Decimal(parameters[name]) for name in ("spend_usd", "previous_usd"))
    first, last = (date.fromisoformat(parameters[name]) for name in ("first", "last"))
    compared = f"{change(spend, previous)} from {usd(previous)} the week before."
    if not previous:
        compared = "You had no spend the week before." if spend else ""
    counts = {name: parameters[name] for name in ("new", "returned", "fixed")}
    changes = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    if changes:
        noun = counted(sum(counts.values()), "finding").partition(" ")[2]
        changes = f"{noun.capitalize()} this week: {changes}."
    realized = ""
    if parameters["realized_usd"] is not None:
        week, total = map(Decimal, (parameters["realized_usd"], parameters["realized_total_usd"]))
        realized = f"Realized savings: {usd(week)} this week, {usd(total)} since your fixes."
    words = {
        "headline": f"You spent {usd(spend)} last week",
        "week": f"{day(first)} to {day(last)}, in UTC",
        "compared": compared,
        "plan": _describe_plan(parameters),
        "findings": [_describe_finding(each) for each in parameters["findings"]],
        "changes": changes,
        "realized": realized,
        "budgets": [describe_budget(each) for each in parameters["budgets"]],
        "dashboard_url": f"{site}/dashboard",
        "findings_url": f"{site}/findings",
        "budgets_url": f"{site}/settings/budgets",
        "settings_url": f"{site}/settings",
        "site": site,
    }
    return f"Your week: {usd(spend)}{f' ({change(spend, previous)})' if previous else ''}", words


def _describe_plan(parameters: Mapping[str, Any]) -> str:
    """Return what calls of a plan are worth; mails of an earlier release don't know."""
    calls = parameters.get("plan_calls")
    if not calls:
        return ""
    whose, are = ("its", "is") if calls == 1 else ("their", "are")
    value = usd(Decimal(parameters["plan_value_usd"]))
    worth = f"{counted(calls, 'call')} {are} included in a plan: {whose} value is {value}"
    return f"Plan usage: {worth}. No other figure counts it."


def _describe_finding(finding: Mapping[str, str]) -> str:
    limit = "up to " if finding["confidence"] == "CONDITIONAL" else ""
    worth = f"{limit}{usd(Decimal(finding['monthly_usd']))}/month"
    return f"{detector_name(finding['detector'])}: {worth}, {finding['confidence'].lower()}"
