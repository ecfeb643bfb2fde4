"""Calls that were not billed at the standard tier, and what their providers say of its price."""

from random import Random
from typing import Any

from msgspec.structs import asdict

from detectors.contract import UsageRecord
from tests.detectors.fourth.catalog import load

TIERS = ("", "", "batch", "flex", "priority", "fast")


class TieredRecord(
    UsageRecord, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False
):
    """A record with what only a provider's own log contains."""

    service_tier: str = ""


def tier_of(record: UsageRecord) -> str:
    return record.service_tier if isinstance(record, TieredRecord) else ""


def draw_tiers(rng: Random, records: list[UsageRecord]) -> list[UsageRecord]:
    """The same calls, some of them billed at another tier."""
    return [TieredRecord(**asdict(record), service_tier=rng.choice(TIERS)) for record in records]


def price_context(tier: str) -> dict[str, str]:
    """What genai_prices needs to know about a call of this tier."""
    return dict(load("service_tiers.toml")["tier"][tier]["context"]) if tier else {}


def published_rule(vendor: str, tier: str) -> dict[str, float] | None:
    """What the provider says it multiplies its rates by."""
    rules: list[dict[str, Any]] = load("service_tiers.toml")["rule"]
    for rule in rules:
        if rule["tier"] == tier and vendor in rule["providers"]:
            return dict(rule["times"])
    return None
