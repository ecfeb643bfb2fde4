"""The units of a record, and the registry of the price book that they come from."""

from itertools import chain
from typing import Any

from genai_prices.data_units import unit_data

from detectors.contract import FIELDS_OF_UNITS, SECONDS, UNITS, find_excess
from detectors.contract.units import SHARES
from tests.cases import data_of, each_case

_DIMENSIONS: dict[str, dict[str, str]] = {
    key: unit["dimensions"] for key, unit in unit_data.items()
}
_EACH_RECORD = {"requests"}  # which each record is one of


def _name(key: str) -> str:
    return FIELDS_OF_UNITS.get(key, key)


def _shares() -> set[tuple[str, frozenset[str]]]:
    """Return the totals of the registry, and their parts by each other dimension."""
    others = set(chain.from_iterable(_DIMENSIONS.values()))
    found = set()
    for total, whole in _DIMENSIONS.items():
        for other in others - whole.keys():
            parts = {
                _name(part)
                for part, own in _DIMENSIONS.items()
                if own.keys() == whole.keys() | {other} and whole.items() <= own.items()
            }
            if not parts.isdisjoint(UNITS):
                found.add((_name(total), frozenset(parts)))
    return found


def test_units_and_parts_are_those_of_the_installed_registry() -> None:
    assert {*UNITS, *FIELDS_OF_UNITS, *_EACH_RECORD} == unit_data.keys()
    assert len(UNITS) + len(FIELDS_OF_UNITS) + len(_EACH_RECORD) == len(unit_data)
    durations = {key for key, own in _DIMENSIONS.items() if own["family"] == "durations"}
    assert set(SECONDS) == durations
    # The parts are those of the installed registry.
    assert {(total, frozenset(parts)) for total, parts in SHARES} == _shares()


@each_case(("counts", "units", "excess"), data_of(__file__)["parts"])
def test_a_part_is_at_most_what_its_total_leaves(
    counts: dict[str, Any], units: dict[str, Any], excess: list[list[str]]
) -> None:
    assert [*map(list, find_excess(counts, units))] == excess
