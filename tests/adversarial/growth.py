"""Measure how processor time grows with the size of an attack, in spite of a busy machine."""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

MOST_PER_DOUBLING: Final = 2.2
# For sizes that take milliseconds, of which a busy machine adds some to one and not to another.
# Quadratic growth is 4.
MOST_PER_SMALL_DOUBLING: Final = 3.0
# Less than this is noise, and no attack.
_NOISE_SECONDS: Final = 0.03
_ROUNDS: Final = 6

_Text = TypeVar("_Text")


def growth(
    read: Callable[[_Text], object],
    attack: Callable[[int], _Text],
    size: int,
    most: float = MOST_PER_DOUBLING,
) -> list[float]:
    """Return the least processor seconds of several rounds at one, two and four times the size.

    A busy machine only adds time, so a round that is good enough ends the measurement.
    """
    texts = [attack(size * factor) for factor in (1, 2, 4)]
    least = [float("inf")] * len(texts)
    for _ in range(_ROUNDS):
        for number, text in enumerate(texts):
            least[number] = min(least[number], _seconds(read, text))
        if is_linear(least, most):
            break
    return least


def is_linear(seconds: Sequence[float], most: float = MOST_PER_DOUBLING) -> bool:
    pairs = zip(seconds, seconds[1:], strict=False)
    return all(after <= max(_NOISE_SECONDS, before * most) for before, after in pairs)


def _seconds(read: Callable[[_Text], object], text: _Text) -> float:
    started_at = time.process_time()
    read(text)
    return time.process_time() - started_at
