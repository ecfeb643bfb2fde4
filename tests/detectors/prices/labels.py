"""Names that the price book knows its models by."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ClauseAnd, ClauseOr, ModelInfo, Provider


@cache
def labelled() -> tuple[tuple[Provider, ModelInfo, str], ...]:
    """Return every model of the book by a name that the book knows it by."""
    return tuple(_labelled())


def _labelled() -> Iterator[tuple[Provider, ModelInfo, str]]:
    for provider in get_snapshot().providers:
        for info in provider.models:
            names = (info.id, *_names(info.match))
            label = next((name for name in names if provider.find_model(name) is info), None)
            if label is not None:
                yield provider, info, label


def _names(clause: Any) -> Iterator[str]:
    """Names that a model's rule for matching mentions."""
    if isinstance(clause, ClauseOr | ClauseAnd):
        for part in clause.or_ if isinstance(clause, ClauseOr) else clause.and_:
            yield from _names(part)
    else:
        for name in vars(clause).values():
            yield from (name, f"{name}08-06")  # what begins with a date's first half, too
