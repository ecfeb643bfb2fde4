"""Models that are not in the price book, such as fine-tunes, at rates from the caller."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
)

from detectors.prices.agreed.terms import Override


def private_model(model: str, overrides: Sequence[Override]) -> ModelInfo:
    """Return the model as a record of the book, priced on the days of the overrides only."""
    ordered = sorted(overrides, key=lambda override: override.period.first or date.min)
    return ModelInfo(
        id=model,
        match=ClauseEquals(model.lower()),
        prices=[ConditionalPrice(prices=ModelPrice()), *_prices(ordered)],
    )


def _prices(overrides: Sequence[Override]) -> Iterator[ConditionalPrice]:
    for override in overrides:
        period = override.period
        start = StartDateConstraint(period.first) if period.first else None
        yield ConditionalPrice(start, prices=ModelPrice(**override.rates))
        if period.last:
            after = StartDateConstraint(period.last + timedelta(days=1))
            yield ConditionalPrice(after, prices=ModelPrice())
