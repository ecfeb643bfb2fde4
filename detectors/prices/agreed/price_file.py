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
Module `bounds` has what a file may have at most.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import msgspec

from detectors.errors import PriceTermsError
from detectors.prices.agreed.agreements import (
    Refuse,
    Where,
    raise_error,
    read_discounts,
    read_overrides,
    wrong,
)
from detectors.prices.agreed.aliases import Alias, read_aliases
from detectors.prices.agreed.bounds import MAX_DATES, MAX_TERMS, blank, check_text
from detectors.prices.agreed.terms import Discount, Override, Period
from detectors.wording.labels import shortened

_TABLES: Final = ("discounts", "overrides", "aliases")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


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
        refuse: Refuse = raise_error,
        *,
        is_stored: bool = False,
    ) -> "PriceTerms":
        """Check the arguments of a price book.

        What is stored was accepted, perhaps before there were limits of its number.
        """
        given = (discounts or {}, overrides or {}, aliases or {})
        count = sum(
            len(value) if isinstance(value, list | tuple) and table is not given[2] else 1
            for table in given
            for value in table.values()
        )
        if count > MAX_TERMS and not is_stored:
            raise PriceTermsError(f"expected at most {MAX_TERMS:,} prices and aliases")
        terms = cls(
            read_discounts(given[0], refuse),
            read_overrides(given[1], refuse),
            read_aliases(given[2], refuse),
        )
        periods = [each.period for each in terms.discounts]
        periods += [each.period for each in terms.overrides]
        dates = {moment for period in periods for moment in period.moments}
        if len(dates) > MAX_DATES and not is_stored:
            raise PriceTermsError(f"expected at most {MAX_DATES} different dates")
        return terms

    def __bool__(self) -> bool:
        return bool(self.discounts or self.overrides or self.aliases)


def read_toml(text: str, refuse: Refuse = raise_error) -> PriceTerms:
    """Read a file; anything else than the format raises `PriceTermsError`, with its line.

    With `refuse`, it is a stored one: it reads what it can, and gives the errors to `refuse`.
    """
    located = Locator(text).wrap(refuse)
    try:
        check_text(text)
        try:
            tables = tomllib.loads(text, parse_float=Decimal)
        except tomllib.TOMLDecodeError as error:
            raise PriceTermsError(f"this is not TOML: {error}") from error
        for name in tables:
            if name not in _TABLES:
                expected = f"unknown {shortened(name, 60)!r}; use {', '.join(_TABLES)}"
                raise PriceTermsError(expected, (name,))
        discounts, *by_model = (_require_table((name,), tables.get(name, {})) for name in _TABLES)
        overrides, aliases = (
            {
                (provider, model): value
                for provider, models in table.items()
                for model, value in _require_table((name, provider), models).items()
            }
            for name, table in zip(_TABLES[1:], by_model, strict=True)
        )
    except PriceTermsError as error:
        located(error)
        return PriceTerms()
    return PriceTerms.read(
        discounts, overrides, aliases, located, is_stored=refuse is not raise_error
    )


def _require_table(where: Where, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(where, "must be a table")
    return value


class Locator:
    """Adds the line of a file to errors that say which of its keys they are about."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")

    def wrap(self, refuse: Refuse) -> Refuse:
        def refuse_with_line(error: PriceTermsError) -> None:
            where = tuple(key.lower() if isinstance(key, str) else key for key in error.where)
            for length in range(len(where), 0, -1):
                if where[:length] in self._lines:
                    line = self._lines[where[:length]]
                    error = PriceTermsError(f"line {line:,}: {error}")
                    break
            refuse(error)

        return refuse_with_line

    @cached_property
    def _lines(self) -> dict[Where, int]:
        """Return the line on which each key of the file begins, in lower case."""
        lines: dict[Where, int] = {}
        entries: Counter[Where] = Counter()
        table: Where = ()
        for line, statement in _statements(self._text):
            paths = list(_paths(tomllib.loads(statement)))
            if not statement.lstrip().startswith("["):
                paths = [(*table, *path) for path in paths]
            else:
                table = paths[-1]
                if table[-1] == 0:  # an entry of an array of tables
                    array = table[:-1]
                    table = (*array, entries[array])
                    entries[array] += 1
                paths = [table]
            for path in paths:
                lines.setdefault(path, line)
        return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the headers and the assignments of a file with their first lines."""
    lines, code = text.split("\n"), blank(text).split("\n")
    start, depth = 0, 0
    for number, each in enumerate(code):
        depth += sum((char in "[{") - (char in "]}") for char in each)
        if depth <= 0:
            statement = "\n".join(lines[start : number + 1])
            if "".join(code[start : number + 1]).strip():
                yield start + 1, statement
            start, depth = number + 1, 0


def _paths(value: Any) -> Iterator[Where]:
    """Yield the keys that lead to each value, the outer ones first."""
    entries: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        entries = ((key.lower(), each) for key, each in value.items())
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, each in entries:
        yield (key,)
        yield from ((key, *rest) for rest in _paths(each))


def write_toml(terms: PriceTerms) -> str:
    """Write a file that `read_toml` reads as these terms; equal terms give the same file."""
    lines, sold = list[str](), attrgetter("provider")
    for provider, discounts in groupby(sorted(terms.discounts, key=sold), sold):
        entries = []
        for discount in discounts:
            share, dates = _number(discount.share), _dates(discount.period)
            entries.append(_inline({"share": share, **dates}) if dates else share)
        value = entries[0] if len(entries) == 1 else f"[{', '.join(entries)}]"
        lines.append(f"{_key(provider)} = {value}")
    written = [*_section("discounts", lines)]
    concerns = attrgetter("concerns")
    for names, overrides in groupby(sorted(terms.overrides, key=concerns), concerns):
        own, table = list(overrides), ".".join(["overrides", *map(_key, names)])
        for override in own:
            rates = {name: _number(rate) for name, rate in override.rates.items()}
            written.append(f"[[{table}]]" if len(own) > 1 else f"[{table}]")
            pairs = (rates | _dates(override.period)).items()
            written += [*(f"{key} = {value}" for key, value in pairs), ""]
    for provider, aliases in groupby(sorted(terms.aliases, key=sold), sold):
        lines = []
        for alias in aliases:
            target = {"provider": alias.target_provider, "model": alias.target_model}
            inline = _inline({name: _text(value) for name, value in target.items()})
            lines.append(f"{_key(alias.model)} = {inline}")
        written += _section(f"aliases.{_key(provider)}", lines)
    return "\n".join(written)


def _section(name: str, lines: Iterable[str]) -> list[str]:
    written = list(lines)
    return [f"[{name}]", *written, ""] if written else []


def _dates(period: Period) -> dict[str, str]:
    days = {"from": period.first, "until": period.last}
    return {name: day.isoformat() for name, day in days.items() if day}


def _inline(values: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {value}" for name, value in values.items()) + " }"


def _number(number: Decimal) -> str:
    digits = f"{number:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else _text(text)


def _text(text: str) -> str:
    """Quote a text; JSON's quoting is valid in TOML once control characters are escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
