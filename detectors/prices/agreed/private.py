"""Models that are not in the price book, such as fine-tunes, at rates from the caller."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

from detectors.prices.agreed.terms import Override
from detectors.prices.lookup.records import Model


def private_model(model: str, overrides: Sequence[Override]) -> Model:
    ordered = sorted(overrides, key=lambda override: override.period.first or date.min)
    return Model(
        id=model,
        terms=["equals", model.lower()],
        context_window=None,
        listed=[[None, {}], *_prices(ordered)],
        variants=None,
    )


def _prices(overrides: Sequence[Override]) -> Iterator[list[Any]]:
    """Yield the days from which prices apply, and the prices, as the data file has them."""
    for override in overrides:
        first, last = override.period.first, override.period.last
        rates = {key: str(rate) for key, rate in override.rates.items()}
        yield [first and first.isoformat(), rates]
        if last:
            yield [(last + timedelta(days=1)).isoformat(), {}]
