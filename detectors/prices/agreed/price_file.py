"""The TOML file of discounts, negotiated rates and aliases: one format to read and to write.

    [discounts]
    openai = 0.12
    anthropic = { share = 0.1, from = 2026-01-01, until = 2026-12-31 }

    [overrides.openai."gpt-5.5"]
    input_mtok = 4
    output_mtok = 24

    [aliases.azure]
    "prod-chat-*" = { provider = "azure", model = "gpt-5.4" }

Several terms of one provider or model, with dates, are an array: `[[overrides.openai."gpt-5.5"]]`.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import msgspec

from detectors.errors import PriceTermsError
from detectors.prices.agreed.agreements import read_discounts, read_overrides
from detectors.prices.agreed.aliases import Alias, read_aliases
from detectors.prices.agreed.terms import Discount, Override, Period

_TABLES: Final = ("discounts", "overrides", "aliases")


class PriceTerms(msgspec.Struct, frozen=True):
    """Everything that replaces list prices and names: checked, except that models exist."""

    discounts: tuple[Discount, ...] = ()
    overrides: tuple[Override, ...] = ()
    aliases: tuple[Alias, ...] = ()

    @classmethod
    def read(
        cls,
        discounts: Mapping[str, Any] | None = None,
        overrides: Mapping[tuple[str, str], Any] | None = None,
        aliases: Mapping[tuple[str, str], Any] | None = None,
    ) -> "PriceTerms":
        """Check the arguments of a price book."""
        return cls(
            read_discounts(discounts or {}),
            read_overrides(overrides or {}),
            read_aliases(aliases or {}),
        )

    def __bool__(self) -> bool:
        return bool(self.discounts or self.overrides or self.aliases)


def read_toml(text: str) -> PriceTerms:
    """Read a file; anything else than the format raises `PriceTermsError`."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PriceTermsError(f"this is not TOML: {error}") from error
    unknown = [name for name in tables if name not in _TABLES]
    if unknown:
        raise PriceTermsError(f"unknown {unknown[0]!r}; use {', '.join(_TABLES)}")
    return PriceTerms.read(
        _require_table("discounts", tables.get("discounts", {})),
        dict(_by_model("overrides", tables)),
        dict(_by_model("aliases", tables)),
    )


def _by_model(name: str, tables: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    for provider, models in _require_table(name, tables.get(name, {})).items():
        for model, value in _require_table(f"{name}.{provider}", models).items():
            yield (provider, model), value


def _require_table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PriceTermsError(f"{name} must be a table")
    return value


def write_toml(terms: PriceTerms) -> str:
    """Write a file that `read_toml` reads as these terms."""
    return "\n".join(
        [
            *_section("discounts", _discounts(terms.discounts)),
            *_overrides(terms.overrides),
            *_aliases(terms.aliases),
        ]
    )


def _section(name: str, lines: Iterable[str]) -> list[str]:
    written = list(lines)
    return [f"[{name}]", *written, ""] if written else []


def _discounts(discounts: Iterable[Discount]) -> Iterator[str]:
    by_provider = groupby(sorted(discounts, key=lambda each: each.provider), lambda e: e.provider)
    for provider, some in by_provider:
        entries = [_inline({"share": f"{each.share:f}", **_dates(each.period)}) for each in some]
        yield f"{_key(provider)} = [{', '.join(entries)}]"


def _overrides(overrides: Iterable[Override]) -> Iterator[str]:
    for each in sorted(overrides, key=lambda each: (each.provider, each.model)):
        rates = {name: f"{rate:f}" for name, rate in each.rates.items()}
        yield f"[[overrides.{_key(each.provider)}.{_key(each.model)}]]"
        yield from (f"{name} = {value}" for name, value in (rates | _dates(each.period)).items())
        yield ""


def _aliases(aliases: Iterable[Alias]) -> Iterator[str]:
    by_provider = groupby(sorted(aliases, key=lambda each: each.provider), lambda e: e.provider)
    for provider, some in by_provider:
        lines = [
            f"{_key(each.model)} = "
            + _inline({"provider": _key(each.target_provider), "model": _key(each.target_model)})
            for each in some
        ]
        yield from _section(f"aliases.{_key(provider)}", lines)


def _dates(period: Period) -> dict[str, str]:
    days = {"from": period.first, "until": period.last}
    return {name: day.isoformat() for name, day in days.items() if day}


def _inline(values: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {value}" for name, value in values.items()) + " }"


def _key(text: str) -> str:
    """Quote a text; JSON's quoting is valid in TOML once control characters are escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
