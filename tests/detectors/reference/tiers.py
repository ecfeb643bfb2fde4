"""What providers say of the price of calls that were not billed at the standard tier."""

from typing import Any

from detectors.contract import UsageRecord
from tests.detectors.reference.catalog import load

TIERS = ("", "", "batch", "flex", "priority", "fast")


def tier_of(record: UsageRecord) -> str:
    tier = getattr(record, "service_tier", None) or ""
    return "" if tier == "standard" else tier


def price_context(tier: str) -> dict[str, str]:
    """Return what genai_prices needs of a call of this tier."""
    return dict(load("service_tiers.toml")["tier"][tier]["context"]) if tier else {}


def published_rule(vendor: str, tier: str) -> dict[str, float] | None:
    """Return what the provider says it multiplies its rates by."""
    rules: list[dict[str, Any]] = load("service_tiers.toml")["rule"]
    for rule in rules:
        if rule["tier"] == tier and vendor in rule["providers"]:
            return dict(rule["times"])
    return None
