"""The mail about unusual days and budgets, at most one a day."""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlencode

from detectors.wording.figures import counted, day, month, percent, usd, whole_usd
from detectors.wording.labels import inert, may_be_link
from service.config import Config

_BEFORE: Final = timedelta(days=27)


def write_spend_notice(config: Config, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the subject and the template variables."""
    days, budgets, site = parameters["days"], parameters["budgets"], config.base_url
    headline = _headline(days, budgets)
    # The unusual days, and four weeks in all.
    unusual = sorted(date.fromisoformat(each["day"]) for each in days)
    shown = urlencode({"from": unusual[0] - _BEFORE, "to": unusual[-1]}) if unusual else ""
    words = {
        "headline": headline,
        "whose": parameters.get("whose", "UTC"),  # mails of an earlier release don't know
        "has_utc_days": parameters.get("has_utc_days", False),
        "unusual": [_describe_day(each) for each in days],
        "budgets": [describe_budget(each) for each in budgets],
        "spend_url": f"{site}/spend?{shown}",
        "budgets_url": f"{site}/settings/budgets",
        "settings_url": f"{site}/settings",
        "site": site,
    }
    return headline, words


def _headline(days: list[dict[str, Any]], budgets: list[dict[str, Any]]) -> str:
    if not days:
        if len(budgets) > 1:
            return f"{len(budgets)} budgets to check"
        [only] = budgets
        when = month(date.fromisoformat(only["month"]))
        if _is_forecast_over(only) and _percent(only) < 80:
            return f"Your spend is forecast to exceed your budget for {when}"
        return f"You've spent {percent(_percent(only))} of your budget for {when}"
    unusual = f"on {day(days[0]['day'])}" if len(days) == 1 else f"on {len(days)} days"
    if not budgets:
        return f"Unusual spend {unusual}"
    return f"Unusual spend {unusual}, and {counted(len(budgets), 'budget')} to check"


def _describe_day(found: Mapping[str, Any]) -> str:
    counts = ((found["routes"], "route"), (found["models"], "model"))
    where = " and ".join(counted(count, noun) for count, noun in counts if count)
    if found["spend_usd"] is None:
        return f"{day(found['day'])}: {where} far above the usual"
    spent, usual = usd(Decimal(str(found["spend_usd"]))), usd(Decimal(str(found["expected_usd"])))
    total = f"{day(found['day'])}: {spent} in total, usually about {usual}"
    return f"{total}; {where} far above the usual" if where else total


def describe_budget(budget: Mapping[str, Any]) -> str:
    """Return how far a budget is spent, and its forecast if that is above it."""
    spent, amount = usd(Decimal(budget["spend_usd"])), usd(Decimal(budget["amount_usd"]))
    share = percent(_percent(budget))
    when = month(date.fromisoformat(budget["month"]))
    whose = "Your account"
    if (route := budget["route"]) is not None:
        # A person typed it, and a mail program might make it a link.
        whose = "A route" if may_be_link(route) else f"Route “{inert(route)}”"
    text = f"{whose}, {when}: {spent} of {amount} spent ({share})"
    if not _is_forecast_over(budget):
        return text
    return f"{text}; {whole_usd(Decimal(budget['forecast_usd']))} forecast by the end of the month"


def _percent(budget: Mapping[str, Any]) -> float:
    return float(Decimal(budget["spend_usd"]) / Decimal(budget["amount_usd"]) * 100)


def _is_forecast_over(budget: Mapping[str, Any]) -> bool:
    forecast = budget["forecast_usd"]
    return forecast is not None and Decimal(forecast) > Decimal(budget["amount_usd"])
