"""Our own data on prices: the rates that the price book lacks, each with its source.

`service_tiers.toml` has tiers and regions, `rates.toml` all others. Providers are IDs of the book.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

import msgspec

from detectors.prices import units
from detectors.prices.boundaries import Boundaries
from detectors.prices.model_data import base_name, read
from detectors.prices.rates import Rates

Multiples = Mapping[str, float]

_TIERS: Final = "service_tiers"
_RATES: Final = "rates"
# Audits ask again for each of their cells; a call's names come from its caller.
_MOST_NAMES: Final = 4_000


class TierRule(msgspec.Struct, frozen=True):
    """What a tier costs as multiples of the standard rates; `is_named` if it names the model."""

    times: Multiples
    is_named: bool


class Follows(msgspec.Struct, frozen=True):
    """What a host's prices have in common with the model provider's."""

    long_prompts: bool
    modalities: bool
    tiers: frozenset[str]


def tier_context(tier: str) -> dict[str, str]:
    """Return the price book's name of a service tier; empty for the standard tier."""
    return dict(read(_TIERS)["tier"][tier]["context"]) if tier else {}


def find_tier_rule(provider: str, model: str, tier: str, at: datetime) -> TierRule | None:
    known = [each for each in _rules(provider, model) if each["tier"] == tier and _holds(each, at)]
    known.sort(key=lambda each: "models" not in each)
    return TierRule(known[0]["times"], "models" in known[0]) if known else None


@lru_cache(maxsize=_MOST_NAMES)
def find_region(provider: str, model: str, region: str) -> Multiples | None:
    """Return the multiples of rates for calls kept in a region, {} without a surcharge.

    None means that nothing is known of this provider's region.
    """
    for rule in read(_TIERS)["region"]:
        if provider in rule["providers"] or "*" in rule["providers"]:
            excluded = _is_named(model, rule.get("not_models", ()))
            if region in rule["regions"] and _is_named(model, rule.get("models", "*")):
                return {} if excluded else dict(rule["times"])
    return None


def priced_regions() -> list[str]:
    regions = (rule["regions"] for rule in read(_TIERS)["region"] if rule["times"])
    return sorted({name for names in regions for name in names})


def find_follows(provider: str) -> Follows | None:
    for each in read(_RATES)["follows"]:
        if provider in each["providers"]:
            tiers = frozenset(each["tiers"])
            return Follows(each["long_prompts"], each["modalities"], tiers)
    return None


def is_billed_with_others(provider: str, model: str, unit: str) -> bool:
    """Check whether a unit is known to have no rate of its own."""
    return any(unit in each["units"] for each in entries("same", provider, model))


def complete(
    listed: Rates, provider: str, model: str, at: datetime, *, prompt_tokens: int, has_lengths: bool
) -> Rates:
    """Add the rates that the book lacks; `has_lengths` if it has rates of long prompts."""
    own = dict(listed.own)
    for entry in entries("rate", provider, model):
        if _holds(entry, at):
            for price_key, usd in entry["usd"].items():
                unit = units.find_unit(price_key)
                if unit is not None and (entry.get("replaces") or unit.usage_key not in own):
                    own[unit.usage_key] = usd / unit.per
    rates = Rates(own)
    for entry in () if has_lengths else entries("long", provider, model):
        if prompt_tokens > entry["over"] and _holds(entry, at):
            return rates.times(entry["times"])
    return rates


def find_boundaries(provider: str, model: str, tier: str) -> Boundaries:
    dated = [*entries("rate", provider, model), *entries("long", provider, model)]
    if tier:
        dated += _rules(provider, model)
    days = [entry["from"] for entry in dated if "from" in entry]
    days += [entry["until"] + timedelta(days=1) for entry in dated if "until" in entry]
    moments = {datetime.combine(day, time(), UTC) for day in days}
    lengths = {entry["over"] for entry in entries("long", provider, model)}
    return Boundaries(moments=frozenset(moments), prompt_tokens=frozenset(lengths))


@lru_cache(maxsize=_MOST_NAMES)
def entries(table: str, provider: str, model: str) -> tuple[dict[str, Any], ...]:
    return tuple(_find(read(_RATES)[table], provider, model))


@lru_cache(maxsize=_MOST_NAMES)
def _rules(provider: str, model: str) -> tuple[dict[str, Any], ...]:
    return tuple(_find(read(_TIERS)["rule"], provider, model))


def _find(entries: list[dict[str, Any]], provider: str, model: str) -> Iterator[dict[str, Any]]:
    for entry in entries:
        if (
            (provider in entry["providers"] or "*" in entry["providers"])
            and _is_named(model, entry.get("models", "*"))
            and not _is_named(model, entry.get("not_models", ()))
        ):
            yield entry


def _is_named(model: str, patterns: Any) -> bool:
    names = base_name(model), model.lower().replace(".", "-")
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _holds(entry: Mapping[str, Any], at: datetime) -> bool:
    day = at.astimezone(UTC).date()
    return bool(entry.get("from", date.min) <= day <= entry.get("until", date.max))
