"""The names of usage fields: written from their sources, shared, and as complete as libraries."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from detectors.formats.json_logs.usage import reader, tables
from examples import make_usage_tables
from tallystick.reading.usage import reader as home
from tests.cases import each_case
from tests.detectors.formats.usage import drift


@each_case("name", ["reader.py", "tables.py"])
def test_the_library_has_the_clients_file(name: str) -> None:
    assert Path(reader.__file__).with_name(name).samefile(Path(home.__file__).with_name(name))


def test_names_and_numbers_have_a_source_and_a_unit() -> None:
    assert make_usage_tables.compiled() == Path(tables.__file__).read_text(), "run: make usage"
    # Every field of ours has a source.
    data = make_usage_tables.read_data()
    for family in data["families"].values():
        assert family["about"]
        assert all(fields["source"] for fields in family["fields"])
    assert all(each["source"] for each in data["providers"].values())
    # Every usage is a unit of the price book.
    from detectors.contract import UNITS
    from detectors.contract.units import FIELDS_OF_UNITS

    roles = {role for fields in make_usage_tables.all_fields().values() for role in fields.values()}
    ours = {"total", "uncached", "part", "free", "unpriced", "usd", "cents", "ticks", "copy"}
    ours |= {"apart", "read_input", "read_output"}
    assert roles - ours <= {*UNITS, *FIELDS_OF_UNITS}
    # No library knows a number that we don t.
    assert drift.unknown_numbers() == []
    # The numbers of libraries are those of their locks.
    known = json.loads(drift.LIBRARIES.read_text())
    versions = {name: library["version"] for name, library in known.items()}
    assert versions == drift.locked_versions(), "run: make usage-libraries"
    for name, library in drift.ELSEWHERE.items():
        assert list(known[name]["numbers"]) == sorted(address for _, address in library.types)
        assert all(known[name]["numbers"].values())


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_the_numbers_of_libraries_are_what_their_types_have() -> None:
    """The versions are compared in `make test`."""
    assert json.loads(drift.LIBRARIES.read_text()) == drift.numbers_elsewhere()


def _without(family: str, path: str) -> dict[str, Any]:
    """Return all names without one, and those of a list without the list."""
    families: dict[str, Any] = copy.deepcopy(tables.FAMILIES)
    inner = families[family]
    *steps, last = path.split(".")
    for step in steps:
        if not isinstance(inner[step], dict):
            last = step
            break
        inner = inner[step]
    if isinstance(inner[last], dict) and "." not in path:
        del inner[last][""]  # a count, and the parts of another
    else:
        del inner[last]
    return families


def test_any_field_that_is_missing_is_found() -> None:
    """Of each type of each library, one field at a time."""
    tried = 0
    for family, address, numbers in drift.all_numbers():
        for path in numbers:
            if drift.is_known(path, tables.FAMILIES[family]):
                tried += 1
                assert not drift.is_known(path, _without(family, path)[family]), (address, path)
        path = next(path for path in numbers if drift.is_known(path, tables.FAMILIES[family]))
        found = drift.unknown_numbers(_without(family, path))
        assert f"{address}: {path}" in found
    assert tried > 150


@each_case("path", ["cacheReadInputTokens", "cacheDetails.inputTokens"])
def test_a_field_of_bedrock_that_is_missing_is_found(path: str) -> None:
    assert f"botocore TokenUsage: {path}" in drift.unknown_numbers(_without("camel", path))


def test_an_attribute_that_is_missing_is_found() -> None:
    names = dict(tables.FAMILIES["spans"])
    del names["gen_ai.usage.cache_read.input_tokens"]
    found = drift.unknown_numbers({**tables.FAMILIES, "spans": names})
    assert found == ["OpenTelemetry: gen_ai.usage.cache_read.input_tokens"]
