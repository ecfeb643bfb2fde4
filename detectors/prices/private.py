"""Models that no price book knows, at rates that their owner states: a deployment, a fine-tune."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
)

from detectors.prices.terms import Override


def private_model(model: str, overrides: Sequence[Override]) -> ModelInfo:
    """The model as a record of the book; it has no price outside of the overrides' days."""
    ordered = sorted(overrides, key=lambda one: one.period.first or date.min)
    return ModelInfo(
        id=model,
        match=ClauseEquals(model.lower()),
        prices=[ConditionalPrice(prices=ModelPrice()), *_prices(ordered)],
    )


def _prices(overrides: Sequence[Override]) -> Iterator[ConditionalPrice]:
    for one in overrides:
        start = StartDateConstraint(one.period.first) if one.period.first else None
        yield ConditionalPrice(start, prices=ModelPrice(**one.rates))
        if one.period.last:
            after = StartDateConstraint(one.period.last + timedelta(days=1))
            yield ConditionalPrice(after, prices=ModelPrice())
