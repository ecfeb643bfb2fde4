"""Labels with printable characters only, for charts, which shorten labels by their width."""

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from detectors.contract import Report
from service.reports.pdf.fonts import named

_Spend = TypeVar("_Spend", bound=Struct)


def with_named_labels(report: Report) -> Report:
    """Replace the characters of labels that the fonts lack."""
    return replace(
        report,
        spend_by_model=_each(report.spend_by_model, "model"),
        spend_by_route=_each(report.spend_by_route, "route"),
        spend_by_day_and_model=_each(report.spend_by_day_and_model, "model"),
    )


def _each(entries: tuple[_Spend, ...], field: str) -> tuple[_Spend, ...]:
    return tuple(_with_named(entry, field) for entry in entries)


def _with_named(entry: _Spend, field: str) -> _Spend:
    label = getattr(entry, field)
    return entry if label.isascii() else replace(entry, **{field: named(label)})
