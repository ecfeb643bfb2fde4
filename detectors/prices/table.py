"""Prices whole frames: rates are resolved once per price cell and joined to the calls.

A cell is a (provider, model, service tier) between two changes of any price that matters to the
log: a start date, a time of day, a prompt length. A log of a million calls has dozens of cells.
"""

from datetime import datetime
from typing import Any

import narwhals.stable.v2 as nw
import polars as pl

from detectors.engines import Calls, fetch, place_beside
from detectors.prices.book import Listing, PriceBook
from detectors.prices.grid import PLACE, Grid, to_moment
from detectors.prices.rates import Rates
from detectors.prices.vendors import asks_for_caching, cache_minimum

_TIER = "service_tier"
_LABELS = ["provider", "model", _TIER]
_CELL = [*_LABELS, *PLACE]
_RATES = {
    "input": pl.Float64,
    "cache_read": pl.Float64,
    "cache_write": pl.Float64,
    "output": pl.Float64,
    "request": pl.Float64,
    "has_cache_read": pl.Int64,
    "has_cache_write": pl.Int64,
}
_SIBLING = "sibling_"
_CELL_SCHEMA = {
    "provider": pl.String,
    "model": pl.String,
    _TIER: pl.String,
    "period": pl.Int32,
    "daytime": pl.Int32,
    "length": pl.Int32,
    "cache_minimum": pl.Int64,
    "asks_for_caching": pl.Int8,
    "has_sibling": pl.Int8,
    **_RATES,
    **{_SIBLING + name: dtype for name, dtype in _RATES.items()},
}
_NO_RATES = Rates(0.0, 0.0, 0.0, 0.0, 0.0, has_cache_read=False, has_cache_write=False)


def price_calls(calls: Calls, book: PriceBook, *, seen: Calls | None = None) -> Calls:
    """The calls with what they cost and what their rates mean to the detectors.

    Calls whose rates are unknown are left out: an unknown rate is no price, and never zero. Added
    are `cost_usd`, `input_usd_per_token` (the input part of the cost over the prompt tokens, 0
    without any), `read_discount_usd` and `write_premium_usd` (what a token read from the cache
    saves, or written to it adds), `has_cache_read`, `cache_minimum`, `asks_for_caching` and
    `sibling_saving_usd` (cost less the cost at the rates of the sibling in the ladder, 0 where
    there is none or it is not the cheaper one).

    `seen` are the same calls where they are easier to look through, before they were joined.
    """
    seen = calls if seen is None else seen
    pairs = _find_pairs(seen)
    grid = Grid.over(book, pairs)
    # Most logs are of the standard tier alone: then there is nothing to be joined by.
    is_tiered = any(pair.get(_TIER) for pair in pairs)
    keys = [*(_LABELS if is_tiered else _LABELS[:2]), *grid.changing]
    cells = fetch(grid.number(seen).select(*keys).unique()) if grid.changing else pairs
    firsts = {_labels(pair): to_moment(pair["first"]) for pair in pairs}
    priced = [_price_cell(cell, book, grid, firsts[_labels(cell)]) for cell in cells]
    known = [cell for cell in priced if cell is not None]
    unused = [name for name in _CELL if name not in keys]
    table = place_beside(calls, pl.DataFrame(known, schema=_CELL_SCHEMA).drop(unused))
    return _spend(grid.number(calls).join(table, on=keys, how="inner")).drop(
        *grid.changing, "has_sibling", *_used_up("", "has_cache_read"), *_used_up(_SIBLING)
    )


def _find_pairs(calls: Calls) -> list[dict[str, Any]]:
    """Every (provider, model), or with its tier where calls have one, and what its calls span."""
    has_tiers = _TIER in calls.collect_schema().names()
    return fetch(
        calls.group_by(*(_LABELS if has_tiers else _LABELS[:2])).agg(
            nw.col("at_us").min().alias("first"),
            nw.col("at_us").max().alias("last"),
            nw.col("prompt_tokens").max().alias("longest"),
        )
    )


def _labels(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["provider"], row["model"], row.get(_TIER, "")


def _price_cell(
    cell: dict[str, Any], book: PriceBook, grid: Grid, first: datetime
) -> dict[str, Any] | None:
    """The row of the join table for one cell; none where the rates are unknown.

    `first` is the time of the first call of these labels.
    """
    provider, model, tier = _labels(cell)
    place = {name: cell.get(name, 0) for name in PLACE}
    at = grid.moment(place["period"], place["daytime"], first)
    tokens = grid.tokens(place["length"])
    listing = book.find_listing(provider, model)
    rates = None if listing is None else listing.find_rates(at, tokens, tier)
    if listing is None or rates is None:
        return None
    sibling = _find_sibling_rates(listing, at, tokens, tier)
    return {
        **dict(zip(_LABELS, (provider, model, tier), strict=True)),
        **place,
        "cache_minimum": cache_minimum(model),
        "asks_for_caching": int(asks_for_caching(model)),
        "has_sibling": int(sibling is not None),
        **_columns("", rates),
        **_columns(_SIBLING, sibling or _NO_RATES),
    }


def _find_sibling_rates(listing: Listing, at: datetime, tokens: int, tier: str) -> Rates | None:
    """The sibling's rates, where it is cheaper on input and output for a short prompt that day."""
    if listing.sibling is None:
        return None
    base, sibling_base = listing.find_rates(at, 0, tier), listing.sibling.find_rates(at, 0, tier)
    if base is None or sibling_base is None or not sibling_base.is_cheaper_than(base):
        return None
    return listing.sibling.find_rates(at, tokens, tier)


def _columns(prefix: str, rates: Rates) -> dict[str, float | int]:
    values = (
        rates.input_usd,
        rates.cache_read_usd,
        rates.cache_write_usd,
        rates.output_usd,
        rates.request_usd,
        int(rates.has_cache_read),
        int(rates.has_cache_write),
    )
    return {prefix + name: value for name, value in zip(_RATES, values, strict=True)}


def _used_up(prefix: str, *kept: str) -> list[str]:
    return [prefix + name for name in _RATES if name not in kept]


def _spend(calls: Calls) -> Calls:
    """Turn rates into dollars."""
    prompt = nw.col("prompt_tokens")
    return (
        calls.with_columns(
            _input_usd("").alias("own_input_usd"), _input_usd(_SIBLING).alias("other_input_usd")
        )
        .with_columns(
            (nw.col("own_input_usd") + _rest_usd("")).alias("cost_usd"),
            (nw.col("other_input_usd") + _rest_usd(_SIBLING)).alias("other_usd"),
            nw.when(prompt > 0)
            .then(nw.col("own_input_usd") / prompt.clip(lower_bound=1))
            .otherwise(nw.lit(0.0))
            .alias("input_usd_per_token"),
            (nw.col("input") - nw.col("cache_read")).alias("read_discount_usd"),
            (nw.col("cache_write") - nw.col("input")).alias("write_premium_usd"),
        )
        .with_columns(
            nw.when(nw.col("has_sibling") == 1)
            .then(nw.col("cost_usd") - nw.col("other_usd"))
            .otherwise(nw.lit(0.0))
            .alias("sibling_saving_usd")
        )
        .drop("own_input_usd", "other_input_usd", "other_usd")
    )


def _input_usd(prefix: str) -> nw.Expr:
    """What the prompt costs.

    As in the book's own calculation, tokens read from or written to the cache are taken out of the
    prompt only where they have a rate of their own. Where these exceed the prompt that calculation
    fails: then nothing of the prompt is left to be billed at the input rate, and every cached
    token costs what it costs.
    """
    read, written = nw.col("cached_tokens"), nw.col("cache_write_tokens")
    own_read = read * nw.col(prefix + "has_cache_read")
    own_written = written * nw.col(prefix + "has_cache_write")
    uncached = nw.col("prompt_tokens") - own_read - own_written
    fits = uncached >= 0
    return (
        nw.when(fits).then(uncached).otherwise(0) * nw.col(prefix + "input")
        + nw.when(fits).then(own_read).otherwise(read) * nw.col(prefix + "cache_read")
        + nw.when(fits).then(own_written).otherwise(written) * nw.col(prefix + "cache_write")
    )


def _rest_usd(prefix: str) -> nw.Expr:
    return nw.col("completion_tokens") * nw.col(prefix + "output") + nw.col(prefix + "request")
