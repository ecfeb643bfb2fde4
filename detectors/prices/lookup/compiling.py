"""Writes the prices of the installed genai-prices as the file that module `installed` reads.

python -m detectors.prices.lookup.compiling > detectors/prices/data/installed.json
"""

import json
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import genai_prices
from genai_prices.data import providers
from genai_prices.data_units import unit_data
from genai_prices.types import (
    ClauseAnd,
    ClauseOr,
    ClauseRegex,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    Provider,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

from detectors.prices.lookup.installed import digest_sources


def compile_prices() -> str:
    head = {
        "version": genai_prices.__version__,
        "sources": digest_sources(Path(genai_prices.__file__).parent),
        "units": unit_data,
    }
    lines = ",\n".join(_provider(each) for each in providers)
    return f'{_json(head)[:-1]},"providers":[\n{lines}\n]}}\n'


def _provider(provider: Provider) -> str:
    fields = (
        provider.id,
        provider.model_match and _clause(provider.model_match),
        provider.provider_match and _clause(provider.provider_match),
        provider.fallback_model_providers,
    )
    models = ",\n".join(_json(_model(model)) for model in provider.models)
    return f"{_json(fields)[:-1]},[\n{models}\n]]"


def _model(model: ModelInfo) -> list[Any]:
    variants = model.price_variants
    special = [[each.when, _time(each.constraint), _prices(each.prices)] for each in variants or ()]
    listed = (
        [[_time(each.constraint), _prices(each.prices)] for each in model.prices]
        if isinstance(model.prices, list)
        else _prices(model.prices)
    )
    return [model.id, _clause(model.match), model.context_window, listed, variants and special]


def _clause(clause: MatchLogic) -> list[Any]:
    """Return the operation and its values, in lower case as the names that they are for."""
    if isinstance(clause, ClauseOr):
        return ["or", *map(_clause, clause.or_)]
    if isinstance(clause, ClauseAnd):
        return ["and", *map(_clause, clause.and_)]
    if isinstance(clause, ClauseRegex):
        return ["regex", clause.regex]
    ((operation, text),) = vars(clause).items()
    return [operation, text.lower()]


def _time(constraint: StartDateConstraint | TimeOfDateConstraint | None) -> Any:
    if constraint is None:
        return None
    if isinstance(constraint, StartDateConstraint):
        return constraint.start_date.isoformat()
    return [constraint.start_time.isoformat(), constraint.end_time.isoformat()]


def _prices(prices: ModelPrice) -> Mapping[str, Any]:
    given = {key: price for key, price in vars(prices).items() if price is not None}
    return {key: str(p) if isinstance(p, Decimal) else _tiered(p) for key, p in given.items()}


def _tiered(price: TieredPrices) -> list[Any]:
    return [str(price.base), *([tier.start, str(tier.price)] for tier in price.tiers)]


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    sys.stdout.write(compile_prices())
