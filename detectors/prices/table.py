"""Prices whole frames: rates are looked up once per price cell and joined to the calls.

A cell is a (provider, model, service tier, region) between two changes of any price that affects
the log: a start date, a time of day, a prompt length. A log of a million calls has dozens of cells.
Rates can be attached again whenever they are read, so calls need only the number of their cell.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Self

import msgspec
import polars as pl

from detectors.engine import Calls, attach, join_small, with_texts
from detectors.prices import model_data, units
from detectors.prices.book import PriceBook
from detectors.prices.grid import CELL_POSITION, Grid, to_moment
from detectors.prices.lookup.published import priced_regions
from detectors.prices.lookup.targets import NO_TARGET
from detectors.prices.rates import NO_RATES, Rates
from detectors.prices.spending import Optional, input_usd, rest_usd, surcharge_column

# The region is in a column of its own, empty if it has no prices of its own.
_PRICED_REGION = "priced_region"
# The units that a call counts and that some models are billed by instead of tokens.
_MEASURED = "measured"
_LABELS = ("provider", "model", "service_tier", _PRICED_REGION, _MEASURED)
_RATES = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "request")
_HAS = ("has_cache_read", "has_cache_write", "has_cache_write_1h")
_SHOWN_RATES = _RATES[:-1]
CELL: Final = "cell"
# What is computed with the cost, and what rates give whenever rules read it.
COMPUTED = ("cost_usd", "input_usd_per_token")
SHOWN = (
    *(f"{name}_usd" for name in _SHOWN_RATES),
    "has_cache_read",
    "has_cache_write_1h",
    "cache_minimum",
    "needs_cache_opt_in",
    "target_kind",
    "target_saving_usd",
)
_TARGET = "target_"
_PAIR_SCHEMA = {
    **dict.fromkeys(_LABELS, pl.String),
    **dict.fromkeys(("first", "last", "longest", "most_cached"), pl.Int64),
}
_CELL_SCHEMA = {
    **dict.fromkeys(_LABELS, pl.String),
    **dict.fromkeys(CELL_POSITION, pl.Int32),
    "cache_minimum": pl.Int64,
    "needs_cache_opt_in": pl.Int8,
    "target_kind": pl.Int8,
    "target_window": pl.Int64,
}


class Gap(msgspec.Struct, frozen=True):
    """Something that a cell's calls have no rate for: their tier, or a unit that some count.

    `name` is the tier, or the column of the unit.
    """

    cell: int
    name: str
    is_tier: bool


class Cells(msgspec.Struct, frozen=True):
    """The price cells of a log: what its calls have in common in each, and their rates.

    `table` has the columns `keys`, which find a call's cell, the number of the cell and its rates.
    """

    keys: tuple[str, ...]
    table: pl.DataFrame
    grid: Grid
    optional: Optional
    gaps: tuple[Gap, ...] = ()

    @classmethod
    def of(cls, calls: Calls, book: PriceBook) -> Self:
        """Return the cells of these calls with known rates."""
        names = calls.collect_schema().names()
        return cls.found(find_pairs(calls), names, book, partial(find_positions, calls))

    @classmethod
    def found(
        cls,
        pairs: pl.DataFrame,
        names: Sequence[str],
        book: PriceBook,
        find: Callable[[Grid, Sequence[str]], pl.DataFrame],
    ) -> Self:
        """Return the cells of calls with these pairs of `find_pairs` and these columns.

        `find` returns their positions, as `find_positions` does.
        """
        optional = units.optional_counts(names)
        rows = pairs.rows(named=True)
        grid = Grid.over(book, rows)
        # Most logs have the standard tier and no region, so that the model is enough.
        used = [n for n in _LABELS if n in _LABELS[:2] or any(pair.get(n) for pair in rows)]
        keys = (*used, *grid.changing)
        cells = find(grid, keys).rows(named=True) if grid.changing else rows
        firsts = {_labels(pair): to_moment(pair["first"]) for pair in rows}
        found = (_price_cell(cell, book, grid, firsts[_labels(cell)], optional) for cell in cells)
        priced = [each for each in found if each is not None]
        schema = _CELL_SCHEMA | _rate_names(optional)
        unused = [name for name in (*_LABELS, *CELL_POSITION) if name not in keys]
        table = pl.DataFrame([rates for rates, _ in priced], schema=schema).drop(unused)
        table = table.with_row_index(CELL).cast({CELL: pl.Int32})
        gaps = (
            Gap(cell, name, is_tier)
            for cell, (_, missing) in enumerate(priced)
            for name, is_tier in missing
        )
        return cls(keys, table, grid, optional, tuple(gaps))

    @property
    def depends_on_model_only(self) -> bool:
        return self.keys == _LABELS[:2]

    def number(self, calls: Calls) -> Calls:
        """Add the number of each call's cell, and remove calls with unknown rates."""
        known = calls.collect_schema().names()
        numbered = self.grid.number(_with_labels(calls))
        table = self.table.select(*self.keys, CELL)
        kinds = numbered.collect_schema()
        labels = [n for n in table.columns if kinds.get(n) == pl.Categorical]
        numbers = table.with_columns(pl.col(labels).cast(pl.Categorical())) if labels else table
        return join_small(numbered, numbers, self.keys).select(*known, CELL)

    def add_cost(self, numbered: Calls) -> Calls:
        """Add `cost_usd` and `input_usd_per_token`."""
        known = numbered.collect_schema().names()
        rates = self.table.select(CELL, *_rate_names(self.optional, [""]))
        prompt = pl.col("prompt_tokens")
        per_token = pl.when(prompt > 0).then(pl.col("prompt_usd") / prompt)
        return (
            attach(numbered, rates, CELL)
            .with_columns(input_usd("", self.optional).alias("prompt_usd"))
            .with_columns(
                (pl.col("prompt_usd") + rest_usd("", self.optional)).alias("cost_usd"),
                per_token.otherwise(pl.lit(0.0)).alias("input_usd_per_token"),
            )
            .select(*known, *COMPUTED)
        )

    def show(self, spent: Calls) -> Calls:
        """Add what the detectors use beside the cost.

        These are the rates per token at the call's time, length and tier `input_usd`,
        `cache_read_usd` and `cache_write_usd` (the input rate if the model has none),
        `cache_write_1h_usd` (the rate of other cache writes if it has none) and `output_usd`,
        `has_cache_read`, `has_cache_write_1h`, `cache_minimum`, `needs_cache_opt_in`, `target_kind`
        (module `lookup.targets`) and `target_saving_usd`: cost minus the cost at the target's
        rates, 0 if there is no target, it is not cheaper, or its context window is too small or
        unknown.
        """
        known = spent.collect_schema().names()
        target = input_usd(_TARGET, self.optional) + rest_usd(_TARGET, self.optional)
        saving = pl.col("cost_usd") - pl.col("target_usd")
        fits = pl.col("prompt_tokens") + pl.col("completion_tokens") <= pl.col("target_window")
        counts = (pl.col("target_kind") > NO_TARGET) & fits & (saving > 0)
        target_saving = pl.when(counts).then(saving).otherwise(pl.lit(0.0))
        rated = attach(spent, self.table.drop(self.keys), CELL).with_columns(
            target.alias("target_usd"),
            *(pl.col(name).alias(f"{name}_usd") for name in _SHOWN_RATES),
            pl.col("has_cache_read", "has_cache_write_1h").cast(pl.Int8),
        )
        rated = rated.with_columns(target_saving.alias("target_saving_usd"))
        return rated.select(*known, *SHOWN)


def _with_labels(calls: Calls) -> Calls:
    """Add the regions with prices of their own, and which units a call is measured in.

    Of other regions, a log may have any number.
    """
    names, labels = calls.collect_schema().names(), list[pl.Expr]()
    if "region" in names:
        is_priced = pl.col("region").is_in(priced_regions())
        region = pl.when(is_priced).then(pl.col("region")).otherwise(pl.lit(""))
        labels.append(region.alias(_PRICED_REGION))
    if measures := units.measures(units.optional_counts(names)):
        given = [
            pl.when(pl.col(name) > 0).then(pl.lit(f"{name} ")).otherwise(pl.lit(""))
            for name in measures
        ]
        labels.append(pl.concat_str(given).alias(_MEASURED))
    return calls.with_columns(*labels) if labels else calls


def find_pairs(calls: Calls) -> pl.DataFrame:
    """Return every combination of labels with its times and its longest prompt."""
    calls = _with_labels(calls)
    known = calls.collect_schema().names()
    labels = [name for name in _LABELS if name in known]
    cached = pl.col("cached_tokens") + pl.col("cache_write_tokens")
    return (
        calls.with_columns(cached.alias("cached"))
        .group_by(labels)
        .agg(
            pl.col("at_us").min().alias("first"),
            pl.col("at_us").max().alias("last"),
            pl.col("prompt_tokens").max().alias("longest"),
            pl.col("cached").max().alias("most_cached"),
        )
        .collect()
    )


def add_pairs(found: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Join what `find_pairs` returned for parts of the calls."""
    labels = pl.col(_LABELS)
    every = pl.concat([pl.DataFrame(schema=_PAIR_SCHEMA), *map(with_texts, found)], how="diagonal")
    return (
        every.with_columns(labels.fill_null(""))
        .group_by(_LABELS)
        .agg(pl.col("first").min(), pl.col("last", "longest", "most_cached").max())
    )


def find_positions(calls: Calls, grid: Grid, keys: Sequence[str]) -> pl.DataFrame:
    """Return every combination of labels and positions in the grid."""
    return grid.number(_with_labels(calls)).select(keys).unique().collect()


def _labels(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row.get(name) or "" for name in _LABELS)


def _price_cell(
    cell: dict[str, Any], book: PriceBook, grid: Grid, first: datetime, optional: Optional
) -> tuple[dict[str, Any], list[tuple[str, bool]]] | None:
    """Return the cell's row of the join table, and what has no rate; None if no rates are known.

    `first` is the time of the first call with these labels. What has no rate is a tier, which is
    marked, or a unit.
    """
    provider, model, tier, region, measured = labels = _labels(cell)
    position = {name: cell.get(name, 0) for name in CELL_POSITION}
    at = grid.moment(position["period"], position["daytime"], first)
    tokens = grid.tokens(position["length"])
    listing = book.find_listing(provider, model)
    where = (at, tokens, tier, region, measured.split())
    rates = None if listing is None else listing.find_rates(*where)
    if listing is None or rates is None:
        return None
    target = listing.target and listing.target.find_rates(*where)
    missing = [(name, False) for name, unit in optional.items() if listing.lacks(unit, rates)]
    if listing.lacks_tier(at, tier):
        missing.append((tier, True))
    row = {
        **dict(zip(_LABELS, labels, strict=True)),
        **position,
        "cache_minimum": model_data.cache_minimum(listing.model),
        "needs_cache_opt_in": int(model_data.needs_cache_opt_in(listing.model)),
        "target_kind": NO_TARGET if target is None else listing.target_kind,
        "target_window": listing.target_window or -1,  # which no call fits
        **_rate_columns("", rates, optional),
        **_rate_columns(_TARGET, target.with_fees_of(rates) if target else NO_RATES, optional),
    }
    return row, missing


def _rate_columns(prefix: str, rates: Rates, optional: Optional) -> dict[str, float | int]:
    columns: dict[str, float | int] = {
        prefix + name: getattr(rates, f"{name}_usd") for name in _RATES
    }
    columns |= {prefix + name: int(rates.has(f"{name[4:]}_tokens")) for name in _HAS}
    for name, unit in optional.items():
        columns[surcharge_column(prefix, name)] = rates.surcharge(unit.usage_key)
    return columns


def _rate_names(optional: Optional, prefixes: Iterable[str] = ("", _TARGET)) -> dict[str, Any]:
    """Return the names of the columns of rates with their types."""
    return {
        **{prefix + name: pl.Float64 for prefix in prefixes for name in _RATES},
        **{prefix + name: pl.Int64 for prefix in prefixes for name in _HAS},
        **{surcharge_column(p, name): pl.Float64 for p in prefixes for name in optional},
    }
