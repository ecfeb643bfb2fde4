"""Calls at a tier, in a region or with units without a known rate, which cost something else."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import polars as pl

from detectors.contract import LONGEST_LIST, MissingRate
from detectors.engine import Calls, Row, attach, collect
from detectors.prices import units
from detectors.prices.book import PriceBook
from detectors.prices.calls import PricedCalls
from detectors.prices.lookup.published import find_region
from detectors.prices.table import CELL
from detectors.report.counting.projection import iso_time

_MODEL: Final = ("provider", "model")


def count_missing_rates(priced: PricedCalls) -> pl.DataFrame | None:
    """Count the calls at a tier, with a unit or in a region that may have no rate, by model.

    Most logs have no such calls, and are not read again for it.
    """
    cells: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for gap in priced.cells.gaps:
        cells[gap.name, gap.is_tier].append(gap.cell)
    found = []
    for (name, is_tier), numbers in cells.items():
        concerned = pl.col(CELL).is_in(numbers)
        if not is_tier:
            concerned &= pl.col(name) > 0
            if units.is_measure(priced.cells.optional[name].usage_key):
                # Beside tokens, seconds or characters only say how the tokens came about.
                concerned &= pl.col("prompt_tokens") + pl.col("completion_tokens") == 0
        calls, kind = priced.calls.filter(concerned), "tier" if is_tier else "unit"
        found.append(_count(priced, calls, kind, pl.lit(name)))
    if "region" in priced.calls.collect_schema().names():
        named = priced.calls.filter(pl.col("region") != "")
        found.append(_count(priced, named, "region", pl.col("region")))
    return collect(pl.concat(found)) if found else None


def list_missing_rates(rows: Sequence[Row], book: PriceBook) -> tuple[MissingRate, ...]:
    """Return what has no rate in a log, most calls first."""
    missing = []
    for row in rows:
        listing = book.find_listing(row["provider"], row["model"])
        if (
            row["kind"] == "region"
            and listing
            and find_region(listing.provider, listing.model, row["name"]) is not None
        ):
            continue
        missing.append(
            MissingRate(
                kind=row["kind"],
                name=row["name"],
                provider=row["provider"],
                model=row["model"],
                calls=row["calls"],
                first_call=iso_time(row["first_us"]),
                last_call=iso_time(row["last_us"]),
            )
        )
    missing.sort(key=lambda each: (-each.calls, each.kind, each.name, each.provider, each.model))
    return tuple(missing[:LONGEST_LIST])


def _count(priced: PricedCalls, calls: Calls, kind: str, name: pl.Expr) -> Calls:
    labels = priced.groups.select("group", *_MODEL, *priced.keys)
    at, log = pl.col("at_us"), [] if priced.keys else [pl.lit(0, pl.Int32).alias("log")]
    named = calls.select("group", "at_us", name.cast(pl.String).alias("name"))
    return (
        attach(named, labels, "group")
        .with_columns(*log, pl.lit(kind).alias("kind"), pl.col(_MODEL).cast(pl.String))
        .group_by("log", "kind", "name", *_MODEL)
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            at.min().alias("first_us"),
            at.max().alias("last_us"),
        )
    )
