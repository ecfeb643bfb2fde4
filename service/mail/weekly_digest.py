"""The weekly digest, for accounts that chose it. It is the default of new accounts."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from detectors.wording.actions import action
from detectors.wording.figures import change, changed_from, counted, day, usd, whole_usd
from detectors.wording.names import PROVIDER_TOTALS
from service.config import Config
from service.mail.spend_notice import describe_budget


def write_weekly_digest(
    config: Config, parameters: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the subject and the template variables."""
    site = config.base_url
    spend, previous = (Decimal(parameters[name]) for name in ("spend_usd", "previous_usd"))
    first, last = (date.fromisoformat(parameters[name]) for name in ("first", "last"))
    words = {
        "headline": f"You spent {usd(spend)} last week",
        "week": f"{day(first)} to {day(last)}, in {parameters.get('whose', 'UTC')}",
        "whose": parameters.get("whose", "UTC"),
        "compared": _compare(parameters, spend, previous),
        "plan": _describe_plan(parameters),
        "findings": [_describe_finding(each) for each in parameters["findings"]],
        "changes": _describe_changes(parameters),
        "realized": _describe_realized(parameters),
        "budgets": [describe_budget(each) for each in parameters["budgets"]],
        "dashboard_url": f"{site}/dashboard",
        "findings_url": f"{site}/findings",
        "budgets_url": f"{site}/settings/budgets",
        "settings_url": f"{site}/settings",
        "site": site,
    }
    share = "–" if _find_gap(parameters) else change(spend, previous)
    return f"Your week: {usd(spend)}{'' if share == '–' else f' ({share})'}", words


def _find_gap(parameters: Mapping[str, Any]) -> str:
    """Return why the week before isn't compared; mails of an earlier release don't know."""
    gap: str = parameters.get("gap", "")
    return gap


def _compare(parameters: Mapping[str, Any], spend: Decimal, previous: Decimal) -> str:
    gap = _find_gap(parameters)
    if gap or not (spend or previous):
        return f"{gap}." if gap and spend else ""
    return f"{changed_from(spend, previous, 'the week before')}."


def _describe_plan(parameters: Mapping[str, Any]) -> str:
    """Return what calls of a plan are worth; mails of an earlier release don't know."""
    calls = parameters.get("plan_calls")
    if not calls:
        return ""
    whose, are = ("its", "is") if calls == 1 else ("their", "are")
    value = usd(Decimal(parameters["plan_value_usd"]))
    worth = f"{counted(calls, 'call')} {are} included in a plan: {whose} value is {value}"
    return f"Plan usage: {worth}. No other figure counts it."


class _Listed(NamedTuple):
    """A finding without the labels of its calls."""

    detector: str
    kind: str
    suggested_model: str | None
    confidence: str
    route: str = ""
    model: str = ""


def _describe_finding(finding: Mapping[str, Any]) -> str:
    limit = "up to " if finding["confidence"] == "CONDITIONAL" else ""
    worth = f"{limit}{whole_usd(Decimal(finding['monthly_usd']))}/month"
    listed = _Listed(
        detector=finding["detector"],
        # Mails that were posted by an earlier release lack these.
        kind=finding.get("kind", ""),
        suggested_model=finding.get("suggested_model"),
        confidence=finding["confidence"],
    )
    source = ", from provider totals" if listed.detector == PROVIDER_TOTALS else ""
    return f"{action(listed, has_labels=False)}: {worth}, {listed.confidence.lower()}{source}"


def _describe_changes(parameters: Mapping[str, Any]) -> str:
    counts = ((parameters[name], name) for name in ("new", "returned", "fixed"))
    known = [f"{count:,} {name}" for count, name in counts if count]
    if not known:
        return ""
    total = sum(parameters[name] for name in ("new", "returned", "fixed"))
    noun = counted(total, "finding").partition(" ")[2]
    return f"{noun.capitalize()} this week: {', '.join(known)}."


def _describe_realized(parameters: Mapping[str, Any]) -> str:
    if parameters["realized_usd"] is None:
        return ""
    week, total = (Decimal(parameters[name]) for name in ("realized_usd", "realized_total_usd"))
    return f"Realized savings: {usd(week)} this week, {usd(total)} since your fixes."
