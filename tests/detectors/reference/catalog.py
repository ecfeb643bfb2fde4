"""What the library's data files say of a model; what it means is decided here again."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import detectors

_FOLDER = Path(detectors.__file__).parent / "prices" / "data"
_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2})$")
_CLOUD_PREFIX = re.compile(r"^(?:[a-z0-9:-]+\.)?anthropic\.")
_CLOUD_VERSION = re.compile(r"-v\d+(:\d+)?$")


def cheaper_model(vendor: str, model: str) -> str | None:
    """Return the model one tier down at the same provider, if the ladder has one."""
    return _entry("ladder.toml", "cheaper", vendor, model)


def successor(vendor: str, model: str) -> str | None:
    """Return the model that replaced this one at the same provider, if there is one."""
    return _entry("successors.toml", "successor", vendor, model)


def _entry(file: str, key: str, vendor: str, model: str) -> str | None:
    for family in load(file)["family"]:
        for name in _names(model) if vendor in family["providers"] else ():
            if name in family[key]:
                return str(family[key][name])
    return None


def minimum_cacheable(model: str) -> int:
    """Return the shortest prompt prefix, in tokens, that the provider caches."""
    table = load("cache_minimums.toml")
    for entry in table["minimum"]:
        if set(_names(model)) & set(entry["models"]):
            return int(entry["tokens"])
    return int(table["default"])


def needs_cache_opt_in(model: str) -> bool:
    """Check whether nothing is cached unless the request says so."""
    families = load("cache_minimums.toml")["opt_in"]["families"]
    return any(family in model.lower() for family in families)


def flat_rate_labels() -> frozenset[str]:
    return frozenset(label["name"] for label in load("flat_rate_labels.toml")["label"])


def own_name(model: str) -> str:
    """Return a model's name without its date and without what a gateway or cloud adds to it."""
    return _names(model)[-1]


@cache
def _names(model: str) -> tuple[str, ...]:
    """Return the names to look a model up by: with its date, without, and spelled with dashes."""
    name = model.lower().removesuffix("[1m]").rpartition("/")[2]
    if _CLOUD_PREFIX.search(name):
        name = _CLOUD_VERSION.sub("", _CLOUD_PREFIX.sub("", name))
    undated = _DATE.sub("", name)
    dashed = undated.replace(".", "-") if undated.startswith("claude-") else undated
    return name, undated, dashed


@cache
def load(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / name).read_text("utf-8"))
