"""The counts of `reliability.md`, in full or at a tenth, and how a test reports its results."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

# What was promised, how often it was tried, and how often it was broken.
Note = Callable[[str, int, int], None]

# Each promise is tested at a tenth of its counts by default, and in full with `-m stress`.
at_both_scales: Final = pytest.mark.parametrize(
    "share",
    [
        pytest.param(0.1, id="at_a_tenth"),
        pytest.param(1.0, id="in_full", marks=(pytest.mark.stress, pytest.mark.timeout(1800))),
    ],
)

# What costs little is tested in full by default, and has its line in the stress table too.
always_in_full: Final = pytest.mark.parametrize(
    "occasion",
    [
        pytest.param("by default", id="in_full"),
        pytest.param("stress", id="in_full_under_stress", marks=pytest.mark.stress),
    ],
)


def sampled(values: Iterable[object], every: int) -> list[Any]:
    """Return parameters of which the first of each so many runs always, the others under stress."""
    return [
        pytest.param(value, marks=[pytest.mark.stress] if number % every else [])
        for number, value in enumerate(values)
    ]


def scaled(count: int, share: float) -> int:
    return math.ceil(count * share)
