"""Reads the data files on models: targets, cache minimums, hosts, flat-rate plans.

Each entry of the TOML files has its source. Module `lookup.published` reads the files with rates.
"""

import re
import tomllib
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

# Suffixes of a snapshot: 2026-03-05, 20251001, @20251001, -001, -v1:0, -latest; of a variant at the
# same rates: [1m], :beta.
_SNAPSHOT = re.compile(
    r"(?:-20\d\d-\d\d-\d\d|[-@]20\d{6}|(?<=-preview)-\d\d-\d{2,4}|-\d{3}|[-@]latest|@default"
    r"|-v\d+(?::\d+)?|\[1m\]|:beta)+\Z"
)
# Hosts add a prefix: anthropic/…, us.anthropic.…, openai.…, models/….
_PREFIX = re.compile(r"\A(?:.*/)?(?:(?:[a-z-]+\.)?(?:anthropic|openai)\.)?")


# A search for a model compares the names of all models of a provider. The price book has 2,000;
# with the longest names of calls, the cache takes 7 MB.
@lru_cache(maxsize=4_000)
def base_name(model: str) -> str:
    """Return the model's name without prefix and snapshot date, with dashes in its version."""
    name = _PREFIX.sub("", model.lower())
    return _SNAPSHOT.sub("", name).replace(".", "-")


def prefix(model: str) -> str:
    found = _PREFIX.match(model.lower())
    return found[0] if found else ""


def find_cheaper_model(provider: str, model: str) -> str | None:
    """Return the next cheaper model of the family at `provider`, an ID of the price book."""
    return _by_provider("ladder", "cheaper").get((provider, base_name(model)))


def find_successor(provider: str, model: str) -> str | None:
    """Return the model that has replaced this one; `provider` is an ID of the price book."""
    return _by_provider("successors", "successor").get((provider, base_name(model)))


def cache_minimum(model: str) -> int:
    """Return the shortest prefix, in tokens, that the model provider caches."""
    minimums = _cache_minimums()
    return minimums.get(base_name(model), minimums[""])


def needs_cache_opt_in(model: str) -> bool:
    """Check whether prompts of this model are cached only if the request opts in."""
    return base_name(model).split("-")[0] in read("cache_minimums")["opt_in"]["families"]


def is_flat_rate(provider: str) -> bool:
    """Check whether a provider label is a plan that is paid per month and not per token."""
    return provider in flat_rate_labels()


@cache
def flat_rate_labels() -> tuple[str, ...]:
    return tuple(label["name"] for label in read("flat_rate_labels")["label"])


def find_host(label: str) -> str | None:
    """Return the price book's ID of a provider under a name that the book does not know."""
    hosts = read("hosts")["host"]
    return next((host["provider"] for host in hosts if label in host["labels"]), None)


def guessed_providers() -> list[str]:
    """Return the providers that readers of logs guess from the form of a response."""
    return list(read("hosts")["guessed"]["providers"])


@cache
def _by_provider(name: str, table: str) -> dict[tuple[str, str], str]:
    return {
        (provider, base_name(model)): target
        for family in read(name)["family"]
        for provider in family["providers"]
        for model, target in family[table].items()
    }


@cache
def _cache_minimums() -> dict[str, int]:
    table = read("cache_minimums")
    named = {
        base_name(model): entry["tokens"] for entry in table["minimum"] for model in entry["models"]
    }
    return {"": table["default"]} | named


@cache
def read(name: str) -> dict[str, Any]:
    file = files(__package__).joinpath("data", f"{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))
