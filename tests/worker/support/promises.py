"""The counts of `reliability.md`, in full or at a tenth, and how a test reports its results."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import pytest

_Value = TypeVar("_Value")
# What was promised, how often it was tried, and how often it was broken.
Note = Callable[[str, int, int], None]
# A full count may take this long, on a busy machine too; other tests have the usual timeout.
STRESS_SECONDS: Final = 1_800
# Set for the processes of a run without stress tests: making those takes each process seconds.
WITHOUT_STRESS: Final = "TALLYSTICK_TESTS_WITHOUT_STRESS"
_HAS_STRESS: Final = WITHOUT_STRESS not in os.environ


def _at_scales(small: float, name: str) -> pytest.MarkDecorator:
    full = pytest.param(1.0, id="in_full", marks=pytest.mark.stress)
    both = [pytest.param(small, id=name), full]
    return pytest.mark.parametrize("share", both if _HAS_STRESS else both[:1])


# Each promise is tested at a tenth of its counts by default, and in full with `-m stress`.
at_both_scales: Final = _at_scales(0.1, "at_a_tenth")
# The same where a tenth takes long, and where there is less to count.
at_a_half: Final = _at_scales(0.5, "at_a_half")
at_a_third: Final = _at_scales(1 / 3, "at_a_third")
at_a_quarter: Final = _at_scales(0.25, "at_a_quarter")
at_a_sixth: Final = _at_scales(1 / 6, "at_a_sixth")
at_a_twentieth: Final = _at_scales(0.05, "at_a_twentieth")
at_a_fortieth: Final = _at_scales(0.025, "at_a_fortieth")
at_a_fiftieth: Final = _at_scales(0.02, "at_a_fiftieth")
at_a_sixtieth: Final = _at_scales(1 / 60, "at_a_sixtieth")

# The same for what a smaller test beside it proves by default; its docstring names that one.
in_full_only: Final = pytest.mark.parametrize(
    "share", [pytest.param(1.0, id="in_full", marks=pytest.mark.stress)]
)

# What costs little is tested in full by default, and has its line in the stress table too.
_OCCASIONS: Final = [
    pytest.param("by default", id="in_full"),
    pytest.param("stress", id="in_full_under_stress", marks=pytest.mark.stress),
]
always_in_full: Final = pytest.mark.parametrize(
    "occasion", _OCCASIONS if _HAS_STRESS else _OCCASIONS[:1]
)


def sampled(values: Iterable[object], every: int, ids: Sequence[str] = ()) -> list[Any]:
    """Return parameters of which the first of each so many runs always, the others under stress."""
    return [
        pytest.param(
            value,
            id=ids[number] if ids else None,
            marks=[pytest.mark.stress] if number % every else [],
        )
        for number, value in enumerate(values)
        if _HAS_STRESS or number % every == 0
    ]


def in_turn(values: Sequence[_Value], number: int, share: float) -> Sequence[_Value]:
    """Return all values in full, and otherwise a single one: another for each number."""
    return values if share == 1 else [values[number % len(values)]]


def scaled(count: int, share: float) -> int:
    return math.ceil(count * share)
