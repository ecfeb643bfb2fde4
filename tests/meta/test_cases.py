"""Cases in one test: each is tried, and the wrong ones are named."""

import pytest

from tests.cases import each_case


@each_case("number", [1, 2, 3, 4])
def _is_odd(number: int) -> None:
    assert number % 2


@each_case(("text", "length"), [("one", 3), ("two", 4)])
def _has_length(text: str, length: int) -> None:
    with pytest.raises(ValueError, match="length"):
        raise ValueError("length" if len(text) == length else "another")


def test_all_cases_are_tried_and_the_wrong_ones_named() -> None:
    with pytest.raises(BaseExceptionGroup, match="in 2 of 4 cases") as caught:
        _is_odd()
    notes = [error.__notes__ for error in caught.value.exceptions]
    assert notes == [["in the case {'number': 2}"], ["in the case {'number': 4}"]]
    with pytest.raises(AssertionError) as alone:
        _has_length()
    assert alone.value.__notes__ == ["in the case {'text': 'two', 'length': 4}"]


@each_case("number", [1, 2])
@each_case("other", [3, 4])
def test_cases_are_combined_and_have_fixtures(number: int, other: int, tmp_path: object) -> None:
    assert (number in (1, 2), other in (3, 4), tmp_path is not None) == (True, True, True)
