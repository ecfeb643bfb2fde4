"""The weekly digest, for accounts that chose it. It is the default of new accounts."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from detectors.wording.actions import action
from detectors.wording.figures import change, changed_from, counted, day, usd, whole_usd
from detectors.wording.names import PROVIDER_TOTALS
from service.config import Config
from service.core.time_zones import UTC_NAME
from service.mail.spend_notice import describe_budget


def write_weekly_digest(
    config: Config, parameters: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the subject and the template variables."""
    site = config.base_url
    spend, previous = (Decimal(parameters[name]) for name in ("spend_usd", "previous_usd"))
    first, last = (date.fromisoformat(parameters[name]) for name in ("first", "last"))
    # Mails of an earlier release don't know these.
    gap: str = parameters.get("gap", "")
    whose: str = parameters.get("whose", UTC_NAME)
    compared = plan = changes = realized = ""
    if gap:
        compared = f"{gap}." if spend else ""
    elif spend or previous:
        compared = f"{changed_from(spend, previous, 'the week before')}."
    if parameters["realized_usd"] is not None:
        names = ("realized_usd", "realized_total_usd")
        saved, total = (usd(Decimal(parameters[name])) for name in names)
        week = "this week" if whose == UTC_NAME else "this week (UTC days)"
        realized = f"Realized savings: {saved} {week}, {total} since your fixes."
    if calls := parameters.get("plan_calls"):  # nor do they know these
        their, are = ("its", "is") if calls == 1 else ("their", "are")
        value = usd(Decimal(parameters["plan_value_usd"]))
        worth = f"{counted(calls, 'call')} {are} included in a plan: {their} value is {value}"
        plan = f"Plan usage: {worth}. No other figure counts it."
    counts = {name: parameters[name] for name in ("new", "returned", "fixed") if parameters[name]}
    if counts:
        noun = counted(sum(counts.values()), "finding").partition(" ")[2].capitalize()
        listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        changes = f"{noun} this week: {listed}."
    words = {
        "headline": f"You spent {usd(spend)} last week",
        "week": f"{day(first)} to {day(last)}, in {whose}",
        "whose": whose,
        "has_utc_days": parameters.get("has_utc_days", False),
        "compared": compared,
        "plan": plan,
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
    share = "–" if gap else change(spend, previous)
    return f"Your week: {usd(spend)}{'' if share == '–' else f' ({share})'}", words


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
