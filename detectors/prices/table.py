"""Prices whole frames: rates are looked up once per price cell and joined to the calls.

A cell is a (provider, model, service tier) between two changes of any price that affects the log: a
start date, a time of day, a prompt length. A log of a million calls has dozens of cells.
"""

from datetime import datetime
from typing import Any

import narwhals.stable.v2 as nw
import polars as pl

from detectors.engines import Calls, Engine, fetch, place_beside
from detectors.prices.book import Listing, PriceBook
from detectors.prices.grid import CELL_POSITION, Grid, to_moment
from detectors.prices.model_data import cache_minimum, needs_cache_opt_in
from detectors.prices.rates import NO_RATES, Rates
from detectors.prices.targets import NO_TARGET

_TIER = "service_tier"
_LABELS = ["provider", "model", _TIER]
_CELL = [*_LABELS, *CELL_POSITION]
_RATES = {
    "input": pl.Float64,
    "cache_read": pl.Float64,
    "cache_write": pl.Float64,
    "cache_write_1h": pl.Float64,
    "output": pl.Float64,
    "request": pl.Float64,
    "has_cache_read": pl.Int64,
    "has_cache_write": pl.Int64,
    "has_cache_write_1h": pl.Int64,
}
_SHOWN_RATES = ("input", "cache_read", "cache_write", "cache_write_1h", "output")
_CHEAPER = "cheaper_"
_TARGET = "target_"
_CELL_SCHEMA = {
    "provider": pl.String,
    "model": pl.String,
    _TIER: pl.String,
    "period": pl.Int32,
    "daytime": pl.Int32,
    "length": pl.Int32,
    "cache_minimum": pl.Int64,
    "needs_cache_opt_in": pl.Int8,
    "has_cheaper": pl.Int8,
    "target_kind": pl.Int8,
    "target_window": pl.Int64,
    **_RATES,
    **{_CHEAPER + name: dtype for name, dtype in _RATES.items()},
    **{_TARGET + name: dtype for name, dtype in _RATES.items()},
}


def price_calls(
    calls: Calls, book: PriceBook, engine: Engine | None = None, *, seen: Calls | None = None
) -> Calls:
    """Add to each call its cost and the rates that the detectors use.

    Calls with unknown rates are removed: an unknown rate is not zero. The new columns are
    `cost_usd`, `input_usd_per_token` (the input part of the cost over the prompt tokens, 0
    without any), the rates per token at the call's time, length and tier `input_usd`,
    `cache_read_usd` and `cache_write_usd` (the input rate if the model has none),
    `cache_write_1h_usd` (the rate of other cache writes if it has none) and `output_usd`,
    `has_cache_read`, `has_cache_write_1h`, `cache_minimum`, `needs_cache_opt_in`, `target_kind`
    (module `targets`) and `target_saving_usd`: cost minus the cost at the target's rates, 0 if
    there is no target, it is not cheaper, or its context window is too small or unknown.

    `read_discount_usd`, `write_premium_usd` and `cheaper_saving_usd` will go.

    `seen` is an earlier frame of the same calls, which is faster to group than a joined one.
    """
    seen = calls if seen is None else seen
    pairs = _find_pairs(seen)
    grid = Grid.over(book, pairs)
    # Most logs have the standard tier only, which needs no join.
    is_tiered = any(pair.get(_TIER) for pair in pairs)
    keys = [*(_LABELS if is_tiered else _LABELS[:2]), *grid.changing]
    cells = fetch(grid.number(seen).select(*keys).unique()) if grid.changing else pairs
    firsts = {_labels(pair): to_moment(pair["first"]) for pair in pairs}
    priced = [_price_cell(cell, book, grid, firsts[_labels(cell)]) for cell in cells]
    known = [cell for cell in priced if cell is not None]
    unused = [name for name in _CELL if name not in keys]
    table = place_beside(calls, pl.DataFrame(known, schema=_CELL_SCHEMA).drop(unused))
    rated = grid.number(calls).join(table, on=keys, how="inner")
    rated = rated.drop(*grid.changing) if grid.changing else rated
    (spent,) = (engine or Engine()).apply("spend", lambda calls: [_spend(calls)], rated)
    return spent


def _find_pairs(calls: Calls) -> list[dict[str, Any]]:
    """Fetch every (provider, model, tier) with its times and its longest prompt."""
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
    """Return the cell's row of the join table; None if its rates are unknown.

    `first` is the time of the first call with these labels.
    """
    provider, model, tier = _labels(cell)
    position = {name: cell.get(name, 0) for name in CELL_POSITION}
    at = grid.moment(position["period"], position["daytime"], first)
    tokens = grid.tokens(position["length"])
    listing = book.find_listing(provider, model)
    rates = None if listing is None else listing.find_rates(at, tokens, tier)
    if listing is None or rates is None:
        return None
    cheaper = _find_cheaper_rates(listing, at, tokens, tier)
    target = listing.target and listing.target.find_rates(at, tokens, tier)
    return {
        **dict(zip(_LABELS, (provider, model, tier), strict=True)),
        **position,
        "cache_minimum": cache_minimum(model),
        "needs_cache_opt_in": int(needs_cache_opt_in(model)),
        "has_cheaper": int(cheaper is not None),
        "target_kind": NO_TARGET if target is None else listing.target_kind,
        "target_window": listing.target_window or -1,
        **_columns("", rates),
        **_columns(_CHEAPER, cheaper or NO_RATES),
        **_columns(_TARGET, target or NO_RATES),
    }


def _find_cheaper_rates(listing: Listing, at: datetime, tokens: int, tier: str) -> Rates | None:
    """Return the cheaper model's rates if it was cheaper for a short prompt on that day."""
    if listing.cheaper is None:
        return None
    base, cheaper_base = listing.find_rates(at, 0, tier), listing.cheaper.find_rates(at, 0, tier)
    if base is None or cheaper_base is None or not cheaper_base.is_cheaper_than(base):
        return None
    return listing.cheaper.find_rates(at, tokens, tier)


def _columns(prefix: str, rates: Rates) -> dict[str, float | int]:
    values = (
        rates.input_usd,
        rates.cache_read_usd,
        rates.cache_write_usd,
        rates.cache_write_1h_usd,
        rates.output_usd,
        rates.request_usd,
        int(rates.has_cache_read),
        int(rates.has_cache_write),
        int(rates.has_cache_write_1h),
    )
    return {prefix + name: value for name, value in zip(_RATES, values, strict=True)}


def _rate_columns(prefix: str, *kept: str) -> list[str]:
    return [prefix + name for name in _RATES if name not in kept]


def _spend(calls: Calls) -> Calls:
    """Turn rates into dollars."""
    prompt = nw.col("prompt_tokens")
    costs = (_input_usd(prefix).alias(prefix + "part") for prefix in ("", _CHEAPER, _TARGET))
    calls = calls.with_columns(*costs).with_columns(
        (nw.col("part") + _rest_usd("")).alias("cost_usd"),
        (nw.col(_CHEAPER + "part") + _rest_usd(_CHEAPER)).alias(_CHEAPER + "usd"),
        (nw.col(_TARGET + "part") + _rest_usd(_TARGET)).alias(_TARGET + "usd"),
        nw.when(prompt > 0)
        .then(nw.col("part") / prompt.clip(lower_bound=1))
        .otherwise(nw.lit(0.0))
        .alias("input_usd_per_token"),
        (nw.col("input") - nw.col("cache_read")).alias("read_discount_usd"),
        (nw.col("cache_write") - nw.col("input")).alias("write_premium_usd"),
        *(nw.col(name).alias(f"{name}_usd") for name in _SHOWN_RATES),
    )
    cheaper_saving = nw.col("cost_usd") - nw.col(_CHEAPER + "usd")
    calls = calls.with_columns(
        nw.when(nw.col("has_cheaper") == 1)
        .then(cheaper_saving)
        .otherwise(nw.lit(0.0))
        .alias("cheaper_saving_usd"),
        _target_saving().alias("target_saving_usd"),
    )
    costs_only = [prefix + name for prefix in ("", _CHEAPER, _TARGET) for name in ("part", "usd")]
    return calls.drop(
        *(name for name in costs_only if name != "usd"),
        *("has_cheaper", "target_window"),
        *_rate_columns("", "has_cache_read", "has_cache_write_1h"),
        *_rate_columns(_CHEAPER),
        *_rate_columns(_TARGET),
    )


def _target_saving() -> nw.Expr:
    """Return what the call would save at the target's rates, 0 if it does not count."""
    saving = nw.col("cost_usd") - nw.col(_TARGET + "usd")
    fits = nw.col("prompt_tokens") + nw.col("completion_tokens") <= nw.col("target_window")
    counts = (nw.col("target_kind") > NO_TARGET) & fits & (saving > 0)
    return nw.when(counts).then(saving).otherwise(nw.lit(0.0))


def _input_usd(prefix: str) -> nw.Expr:
    """Return the cost of the prompt.

    As in the book's own calculation, tokens read from or written to the cache are subtracted from
    the prompt only if they have a rate. If they exceed the prompt, that calculation fails: then no
    token is billed at the input rate, and every cached token at its cache rate.
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
