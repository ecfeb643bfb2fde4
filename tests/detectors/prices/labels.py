"""Names that the price book knows its models by."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ClauseAnd, ClauseOr, ModelInfo, Provider

from detectors.prices.book import PriceBook
from detectors.prices.lookup import published
from detectors.prices.model_data import flat_rate_labels

# Plans are priced by the model provider's list, not by the book's entry for the plan.
PLANS = frozenset(flat_rate_labels())
_LONG = 100_000
_BOOK = PriceBook()


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


def is_completed(call: Mapping[str, Any]) -> bool:
    """Whether our own data may add to what the book has for this call."""
    listing = _BOOK.find_listing(call["provider"], call["model"])
    if listing is None:
        return False
    if any(published.entries(table, listing.provider, listing.model) for table in ("rate", "long")):
        return True
    counted = (name for name, count in call.items() if count and "_tokens" in name)
    modalities = ("audio", "image", "video")
    return listing.original is not None and (
        max(call["prompt_tokens"], call["cached_tokens"] + call["cache_write_tokens"]) > _LONG
        or any(modality in name for name in counted for modality in modalities)
    )
