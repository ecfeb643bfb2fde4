"""What providers say of the price of calls that were not billed at the standard tier."""

from datetime import date
from fnmatch import fnmatch
from typing import Any

from detectors.contract import UsageRecord
from tests.detectors.reference.catalog import load, own_name


def tier_of(record: UsageRecord) -> str:
    tier = getattr(record, "service_tier", None) or ""
    return "" if tier == "standard" else tier


def price_context(tier: str) -> dict[str, str]:
    """Return what genai_prices needs of a call of this tier."""
    return dict(load("service_tiers.toml")["tier"][tier]["context"]) if tier else {}


def published_rule(
    vendor: str, model: str, tier: str, day: date, *, is_named: bool
) -> dict[str, float] | None:
    """Return what the provider says it multiplies its rates by, of this model or of all."""
    for rule in load("service_tiers.toml")["rule"]:
        is_meant = rule["tier"] == tier and vendor in rule["providers"]
        in_time = rule.get("from", day) <= day <= rule.get("until", day)
        is_kind = ("models" in rule) is is_named
        is_like = _is_like(model, rule.get("models", ["*"]))
        is_excluded = _is_like(model, rule.get("not_models", []))
        if is_meant and in_time and is_kind and is_like and not is_excluded:
            return dict(rule["times"])
    return None


def own_rates(vendor: str, model: str) -> dict[str, float]:
    """Return the rates that our data has instead of the book's, which have no dates so far."""
    entries = load("rates.toml")["rate"]
    meant = [each for each in entries if vendor in each["providers"]]
    return {
        key: usd
        for each in meant
        if _is_like(model, each["models"]) and each.get("replaces")
        for key, usd in each["usd"].items()
    }


def follows(host: str) -> dict[str, Any]:
    """Return what a host has in common with the model provider's price list."""
    entries = load("rates.toml")["follows"]
    return next((each for each in entries if host in each["providers"]), {})


def _is_like(model: str, patterns: list[str]) -> bool:
    name = own_name(model).replace(".", "-")
    return any(fnmatch(name, pattern) for pattern in patterns)
