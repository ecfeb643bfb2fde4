"""Parts of the counts in a model provider's usage, as columns.

Providers count by rules of their own, so a part is cut to its total instead of making a row
invalid. A column exists only if some call has the part.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from detectors.contract import PARTS
from detectors.formats.columns import Columns


def column(details: Sequence[Any], name: str) -> list[int] | None:
    """Return a count of details that may be absent; None if all are absent or zero."""
    if not any(details):
        return None
    get = attrgetter(name)
    return filled([get(detail) if detail else None for detail in details])


def filled(counts: list[int | None]) -> list[int] | None:
    """Return counts with 0 for those that are absent; None if all are absent or zero."""
    return [count or 0 for count in counts] if any(counts) else None


def given(**columns: list[Any] | None) -> Columns:
    return {name: values for name, values in columns.items() if values is not None}


def cut_parts(columns: Columns) -> Columns:
    for part in PARTS:
        if part.name in columns:
            own, totals = columns[part.name], columns[part.total]
            beside = columns.get(part.beside) or [0] * len(own)
            columns[part.name] = [
                min(count, (total or 0) - other)
                for count, total, other in zip(own, totals, beside, strict=True)
            ]
    return columns
