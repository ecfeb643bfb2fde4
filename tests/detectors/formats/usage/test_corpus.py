"""Recorded exchanges with known records and bills: every door reads the same."""

import pytest

from tests.detectors.formats.usage.doors import Case, corpus, doors_of, expected, read


@pytest.mark.parametrize("case", corpus(), ids=lambda case: case["name"])
def test_every_door_reads_the_same(case: Case) -> None:
    readings = {door: read(case, door) for door in doors_of(case)}
    wrong = {door: found for door, found in readings.items() if found != expected(case)}
    assert not wrong, f"right: {expected(case)}"
