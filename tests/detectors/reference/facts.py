"""Facts about models, read from the library's data files; what they mean is decided here again."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import detectors

_FOLDER = Path(detectors.__file__).parent / "prices" / "data"
_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2})$")


def cheaper_model(vendor: str, model: str) -> str | None:
    """The model one tier down at the same provider, if the ladder has one."""
    name = _undated(model)
    for family in load("ladder.toml")["family"]:
        if vendor in family["providers"] and name in family["cheaper"]:
            return str(family["cheaper"][name])
    return None


def minimum_cacheable(model: str) -> int:
    """The shortest prompt prefix, in tokens, that the provider caches."""
    table = load("cache_minimums.toml")
    for entry in table["minimum"]:
        if _undated(model) in entry["models"]:
            return int(entry["tokens"])
    return int(table["default"])


def needs_cache_opt_in(model: str) -> bool:
    """Whether nothing is cached unless the request says so."""
    families = load("cache_minimums.toml")["opt_in"]["families"]
    return any(family in model.lower() for family in families)


def flat_rate_labels() -> frozenset[str]:
    return frozenset(label["name"] for label in load("flat_rate_labels.toml")["label"])


def _undated(model: str) -> str:
    return _DATE.sub("", model.lower())


@cache
def load(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / name).read_text("utf-8"))
