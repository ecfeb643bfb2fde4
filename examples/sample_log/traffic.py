"""What every route of the sample log is made with: random numbers, hours, and calls.

It only uses `random()`, whose sequence Python keeps stable, so the log is the same everywhere.
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MONDAY = int(datetime(2026, 10, 5, tzinfo=UTC).timestamp())
DAYS = 14
HOUR, DAY = 3_600, 86_400


def _hours(weights: str) -> tuple[int, ...]:
    return tuple(int(weight) for weight in weights.split())


# The traffic of each hour, UTC: working hours in Europe, then in America.
OFFICE = _hours("1 1 1 1 1 2 6 14 22 26 26 22 20 25 28 26 22 18 14 10 7 4 3 2")
ROUND_THE_CLOCK = _hours("8 7 6 6 6 7 9 11 13 14 14 13 13 14 14 14 13 12 11 11 10 10 9 9")
WEEKEND = 0.25  # of a weekday's calls, on routes that people use

Call = dict[str, Any]


class Dice:
    """A random generator that uses `random()` only."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def share(self) -> float:
        return self._random.random()

    def whole(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return low + int(self.share() * (high - low + 1))

    def near(self, usual: int, spread: float) -> int:
        """Return a number around `usual`, within `spread` of it."""
        return int(usual * (1 + spread * (self.share() + self.share() - 1)))

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.share() * len(choices))]

    def moment(self, hours: Sequence[int], weekend: float) -> int:
        """Return a second of the two weeks, more often in busy hours and on weekdays."""
        while True:
            second = self.whole(0, DAYS * DAY - 1)
            weight = hours[second % DAY // HOUR] / max(hours)
            if second // DAY % 7 >= 5:
                weight *= weekend
            if self.share() < weight:
                return MONDAY + second


@dataclass(frozen=True)
class Route:
    """A use of a model, with the labels of its calls."""

    tag: str
    provider: str
    model: str
    cap: int | None = None

    def call(self, created: int, prompt: int, completion: int, **more: Any) -> Call:
        return {
            "created": created,
            "tag": self.tag,
            "provider": self.provider,
            "model": self.model,
            "prompt": prompt,
            "completion": completion,
            "cap": self.cap,
            **more,
        }


def prefix_hash(name: str) -> str:
    """Return a value like the hash of a prompt's first 4,096 characters."""
    return hashlib.sha256(name.encode()).hexdigest()
