"""The assumptions that account settings can change: their values as text and as typed numbers."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from detectors.contract import Assumption, Report, changed_assumptions
from detectors.wording.figures import number, percent, usd

CHANGED_HEADING: Final = "Changed assumptions"
CHANGED_NOTE: Final = "These differ from the detectors' defaults:"

_UNITS: Final = {"share": "%", "multiple": "times", "usd": "US dollars"}


def list_changed(report: Report) -> Iterator[str]:
    for assumption, value in changed_assumptions(report.thresholds):
        default = write_value(assumption, assumption.default)
        yield f"{assumption.label}: {write_value(assumption, value)} (default: {default})"


def write_value(assumption: Assumption, value: float) -> str:
    """Write a value with its unit: 50%, 300 seconds, $0.01, 3 times."""
    if assumption.unit == "share":
        return percent(value * 100)
    if assumption.unit == "usd":
        return usd(value)
    shown = number(int(value)) if value == int(value) else f"{value:g}"
    unit = unit_name(assumption)
    return f"{shown} {unit.removesuffix('s') if value == 1 and unit != 'times' else unit}"


def unit_name(assumption: Assumption) -> str:
    return _UNITS.get(assumption.unit, assumption.unit)


def write_typed(assumption: Assumption, value: float) -> str:
    """Write a value as a field has it: a share as the number before the percent sign."""
    return f"{(Decimal(str(value)) * _scale(assumption)).normalize():f}"


def read_typed(assumption: Assumption, text: str) -> float:
    """Read what a person typed; anything but a number within the limits raises `ValueError`."""
    lowest, highest = (Decimal(str(limit)) for limit in assumption.limits)
    scale = _scale(assumption)
    try:
        value = Decimal(text.strip().replace(",", "")) / scale
    except ArithmeticError:
        value = Decimal("NaN")
    is_within = value.is_finite() and lowest <= value <= highest
    if not is_within or (assumption.is_whole and value != int(value)):
        kind = "a whole number" if assumption.is_whole else "a number"
        most = f"{int(highest * scale):,}"
        raise ValueError(f"Enter {kind} from {int(lowest * scale)} to {most}.")
    return int(value) if assumption.is_whole else float(value)


def _scale(assumption: Assumption) -> int:
    return 100 if assumption.unit == "share" else 1
