"""Thresholds drawn around their defaults."""

from random import Random

from msgspec.structs import replace

from detectors import Thresholds

_OF_THE_FILE = {"min_valid_pct", "warn_valid_pct"}
_MOVED = 0.35  # of all thresholds


def draw_thresholds(rng: Random) -> Thresholds:
    defaults = Thresholds()
    names = [name for name in Thresholds.__struct_fields__ if name not in _OF_THE_FILE]
    moved = [name for name in names if rng.random() < _MOVED]
    return replace(defaults, **{name: _near(rng, name, getattr(defaults, name)) for name in moved})


def _near(rng: Random, name: str, default: float) -> float:
    if isinstance(default, int) and default > 10:
        return int(default * rng.choice([0.5, 0.8, 1.2, 2]))
    if isinstance(default, int):
        return max(1, default + rng.choice([-2, -1, 1, 2]))
    moved = default * rng.choice([0.25, 0.5, 0.9, 1.1, 1.5, 2])
    return min(moved, 1.0) if name.endswith(("share", "quantile")) else moved
