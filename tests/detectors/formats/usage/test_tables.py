"""The names of usage fields: written from their sources, copied, and as complete as libraries."""

import copy
from pathlib import Path
from typing import Any

import pytest

from detectors.formats.json_logs.usage import compiling, reader, tables
from tallystick.reading.usage import reader as home
from tests.detectors.formats.usage import drift


@pytest.mark.parametrize("name", ["reader.py", "tables.py"])
def test_the_copy_is_the_clients_file(name: str) -> None:
    folders = Path(reader.__file__).parent, Path(home.__file__).parent
    assert len({(folder / name).read_bytes() for folder in folders}) == 1


def test_the_names_are_those_of_their_sources() -> None:
    assert compiling.compiled() == Path(tables.__file__).read_text(), "run: make usage"


def test_every_field_of_ours_has_a_source() -> None:
    data = compiling.read_data()
    for family in data["families"].values():
        assert family["about"]
        assert all(fields["source"] for fields in family["fields"])
    assert all(each["source"] for each in data["providers"].values())


def test_every_usage_is_a_unit_of_the_price_book() -> None:
    from detectors.contract import UNITS
    from detectors.contract.units import FIELDS_OF_UNITS

    roles = {role for fields in compiling.all_fields().values() for role in fields.values()}
    ours = {"total", "uncached", "part", "free", "unpriced", "usd", "cents", "ticks", "copy"}
    ours |= {"apart", "read_input", "read_output"}
    assert roles - ours <= {*UNITS, *FIELDS_OF_UNITS}


def test_no_installed_library_knows_a_number_that_we_don_t() -> None:
    assert drift.unknown_numbers() == []


@pytest.mark.parametrize(
    ("family", "path"),
    [
        ("tokens", "prompt_tokens_details.audio_tokens"),
        ("tokens", "input_token_details.cached_tokens_details.audio_tokens"),
        ("tokens", "cache_creation.ephemeral_1h_input_tokens"),
        ("tokens", "seconds"),
        ("camel", "cacheReadInputTokens"),
        ("camel", "cacheDetails"),
    ],
)
def test_a_field_that_is_missing_is_found(family: str, path: str) -> None:
    families = copy.deepcopy(tables.FAMILIES)
    *steps, last = path.split(".")
    inner: Any = families[family]
    for step in steps:
        inner = inner[step]
    del inner[last]
    assert any(path in each for each in drift.unknown_numbers(families))
