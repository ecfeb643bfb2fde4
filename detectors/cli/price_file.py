"""Negotiated rates from a TOML file, with the arguments of `PriceBook` as its tables."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import detectors
from detectors.cli.console import BadInputError, shown
from detectors.errors import PriceTermsError

if TYPE_CHECKING:
    from detectors import PriceBook

_TABLES = ("discounts", "overrides")


def read_prices(file: Path) -> "PriceBook":
    """Return the price book of the installed version at the rates of the file."""
    tables = _load(file)
    unknown = [name for name in tables if name not in _TABLES]
    if unknown:
        raise BadInputError(f"{shown(file)}: unknown {unknown[0]!r}; use {' or '.join(_TABLES)}")
    for name, table in tables.items():
        _require_table(file, name, table)
    try:
        return detectors.PriceBook(
            discounts=tables.get("discounts"),
            overrides={
                (provider, model): rates
                for provider, models in tables.get("overrides", {}).items()
                for model, rates in _require_table(file, f"overrides.{provider}", models).items()
            },
        )
    except PriceTermsError as error:
        raise BadInputError(f"{shown(file)}: {error}") from error


def _load(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"cannot read {shown(file)}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{shown(file)} is not TOML: {error}") from error


def _require_table(file: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInputError(f"{shown(file)}: {name} must be a table")
    return value
