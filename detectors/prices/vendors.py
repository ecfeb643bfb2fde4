"""What the data files say about models: the ladder, cache minimums, service tiers, plans' labels.

Facts of vendors live in the TOML files beside this module, each with its source. Rates never do.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

# What follows a model's name in a snapshot: 2026-03-05, 20251001, @20251001, -001, -v1:0, -latest.
_SNAPSHOT = re.compile(
    r"(?:-20\d\d-\d\d-\d\d|[-@]20\d{6}|(?<=-preview)-\d\d-\d{2,4}|-\d{3}|-latest|-v\d+(?::\d+)?)+\Z"
)
# Resellers write the vendor in front: anthropic/…, us.anthropic.…, models/….
_PREFIX = re.compile(r"\A(?:.*/|(?:[a-z-]+\.)?anthropic\.)")


def base_name(model: str) -> str:
    """The model's name without vendor prefix and snapshot date, its version written with dashes."""
    name = _PREFIX.sub("", model.lower())
    return _SNAPSHOT.sub("", name).replace(".", "-")


def find_sibling(provider: str, model: str) -> str | None:
    """The name of the model one tier down at `provider`, an id of the price book."""
    return _ladder().get((provider, base_name(model)))


def cache_minimum(model: str) -> int:
    """The shortest prefix in tokens that the model's vendor caches."""
    minimums = _cache_minimums()
    return minimums.get(base_name(model), minimums[""])


def asks_for_caching(model: str) -> bool:
    """Whether nothing of this model's prompts is cached unless the request asks for it."""
    return base_name(model).split("-")[0] in _read("cache_minimums")["asked_for"]["families"]


def is_flat_rate(provider: str) -> bool:
    """Whether a provider label names a plan that is paid per month, not per token."""
    return any(label["name"] == provider for label in _read("flat_rate_labels")["label"])


def tier_context(tier: str) -> dict[str, str]:
    """How the price book names a service tier; empty for the standard one."""
    return dict(_read("service_tiers")["tier"][tier]["context"]) if tier else {}


def tier_multiples(provider: str, tier: str) -> dict[str, float]:
    """What the vendor's published rule multiplies its rates by; empty where there is none."""
    for rule in _read("service_tiers")["rule"]:
        if rule["tier"] == tier and provider in rule["providers"]:
            return dict(rule["times"])
    return {}


@cache
def _ladder() -> dict[tuple[str, str], str]:
    return {
        (provider, base_name(model)): sibling
        for family in _read("ladder")["family"]
        for provider in family["providers"]
        for model, sibling in family["siblings"].items()
    }


@cache
def _cache_minimums() -> dict[str, int]:
    table = _read("cache_minimums")
    named = {
        base_name(model): entry["tokens"] for entry in table["minimum"] for model in entry["models"]
    }
    return {"": table["default"]} | named


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
