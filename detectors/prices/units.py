"""The units that the price book has rates for, from its own registry, and the counts of a call.

A price key that the book gains is priced as soon as a frame has a column with the name of its
usage: a field of the record, or one of its `units`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from genai_prices.data_units import unit_data

from detectors.contract import FIELDS_OF_UNITS, UNITS


class Unit(msgspec.Struct, frozen=True):
    usage_key: str
    price_key: str
    per: int
    dimensions: Mapping[str, str]


_UNITS: Final = {
    key: Unit(key, raw.get("price_key", key), raw["per"], raw.get("dimensions", {}))
    for key, raw in unit_data.items()
}
_BY_PRICE_KEY: Final = {unit.price_key: unit for unit in _UNITS.values()}

INPUT: Final = "input_tokens"
OUTPUT: Final = "output_tokens"
CACHE_READ: Final = "cache_read_tokens"
CACHE_WRITE: Final = "cache_write_tokens"
CACHE_WRITE_5M: Final = "cache_write_5m_tokens"
CACHE_WRITE_1H: Final = "cache_write_1h_tokens"
REQUESTS: Final = "requests"

# The usage of the book by the counts that every call has, and by those that only some logs have.
COUNTED: Final = {
    "prompt_tokens": INPUT,
    "completion_tokens": OUTPUT,
    "cached_tokens": CACHE_READ,
    "cache_write_tokens": CACHE_WRITE,
}
_RENAMED: Final = {field: unit for unit, field in FIELDS_OF_UNITS.items()}
_ALWAYS: Final = frozenset({*COUNTED.values(), CACHE_WRITE_5M, REQUESTS})


def optional_counts(columns: Iterable[str]) -> dict[str, Unit]:
    """Return the unit of each column that counts something beside the usual four counts."""
    keys = {name: _RENAMED.get(name, name) for name in columns if name not in COUNTED}
    return {name: _UNITS[key] for name, key in keys.items() if key in _UNITS and key not in _ALWAYS}


def priced_units() -> dict[str, Unit]:
    counted = {*_ALWAYS, *FIELDS_OF_UNITS, *UNITS}
    return {unit.price_key: unit for key, unit in _UNITS.items() if key in counted}


def find_unit(price_key: str) -> Unit | None:
    """Return the unit of a price key; None if the registry does not have it."""
    return _BY_PRICE_KEY.get(price_key)


def find_per(key: str) -> int:
    """Return for how many units of a usage the book's rates are."""
    return _UNITS[key].per


def is_fee(key: str) -> bool:
    return _UNITS[key].dimensions["family"] == "tool_calls"


def overlaps(key: str) -> bool:
    """Check whether a usage is part of two others, such as the cached tokens of sounds."""
    kinds = _UNITS[key].dimensions.keys() & {"modality", "token_type"}
    return len(kinds) > 1


def measures(optional: Mapping[str, Unit]) -> list[str]:
    """Return the columns of units that a model may be billed by instead of tokens."""
    return [name for name, unit in optional.items() if is_measure(unit.usage_key)]


def is_measure(key: str) -> bool:
    """Check whether a model may be billed by a usage instead of tokens, such as seconds."""
    return key != REQUESTS and _UNITS[key].dimensions["family"] not in ("tokens", "tool_calls")


def is_apart(key: str) -> bool:
    """Check whether a usage has a rate of its own where it is billed: all but parts of texts."""
    dimensions = _UNITS[key].dimensions
    if dimensions["family"] != "tokens":
        return True
    return dimensions.keys() == {"family", "direction", "modality"} and (
        dimensions["modality"] != "text"
    )


def purpose(key: str) -> str:
    """Return the kind of rate: input, cache_read, cache_write, output; else the usage itself."""
    dimensions = _UNITS[key].dimensions
    if dimensions["family"] != "tokens":
        return key
    token_type = dimensions.get("token_type", "")
    return token_type if token_type.startswith("cache_") else dimensions["direction"]


def direction(key: str) -> str:
    """Return the usage of all input or all output that a usage is part of; itself otherwise."""
    dimensions = _UNITS[key].dimensions
    totals = {"input": INPUT, "output": OUTPUT}
    return totals[dimensions["direction"]] if dimensions["family"] == "tokens" else key


def has_modality(key: str) -> bool:
    return "modality" in _UNITS[key].dimensions


def surcharge(rates: Mapping[str, float], key: str) -> float:
    """Return what a unit costs beyond the rates that it is billed at as part of other units.

    As in the book's own calculation, a unit with a rate is subtracted from the units that it is
    part of; without a rate of its own it is billed as these.
    """
    if key not in rates:
        return 0.0
    lineage = {key, *(other for other in rates if _is_part(key, other))}
    shares: dict[str, int] = {}
    for part in sorted(lineage, key=lambda each: -len(_UNITS[each].dimensions)):
        inner = (shares[other] for other in shares if _is_part(other, part))
        shares[part] = int(part == key) - sum(inner)
    return sum(rates[part] * share for part, share in shares.items())


def _is_part(inner: str, outer: str) -> bool:
    """Check whether each of the first unit is one of the second, which is not itself."""
    whole, part = _UNITS.get(outer), _UNITS[inner]
    return (
        whole is not None
        and whole is not part
        and whole.dimensions.items() <= part.dimensions.items()
    )
