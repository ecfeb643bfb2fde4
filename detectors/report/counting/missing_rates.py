"""Calls at a tier, in a region or with units without a known rate, which cost something else."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw

from detectors.contract import LONGEST_LIST, MissingRate
from detectors.engines import Calls, Engine
from detectors.prices import units
from detectors.prices.book import PriceBook
from detectors.prices.calls import PricedCalls
from detectors.prices.lookup.published import find_region
from detectors.prices.table import CELL
from detectors.report.counting.projection import iso_time

_MODEL: Final = ("provider", "model")


def count_missing_rates(
    priced: PricedCalls, book: PriceBook, engine: Engine
) -> dict[int, tuple[MissingRate, ...]]:
    """Return what has no rate in each log, most calls first.

    Most logs have no such calls, and are not read again for it.
    """
    found: dict[int, list[MissingRate]] = defaultdict(list)
    for kind, name, row in (*_in_cells(priced, engine), *_in_regions(priced, book, engine)):
        found[row.get("log", 0)].append(
            MissingRate(
                kind=kind,
                name=name,
                provider=row["provider"],
                model=row["model"],
                calls=row["calls"],
                first_call=iso_time(row["first_us"]),
                last_call=iso_time(row["last_us"]),
            )
        )
    for rows in found.values():
        rows.sort(key=lambda each: (-each.calls, each.kind, each.name, each.provider, each.model))
    return {log: tuple(rows[:LONGEST_LIST]) for log, rows in found.items()}


def _in_cells(priced: PricedCalls, engine: Engine) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """Yield tiers and units without a rate, with their number of calls by model."""
    cells: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for gap in priced.cells.gaps:
        cells[gap.name, gap.is_tier].append(gap.cell)
    for (name, is_tier), numbers in cells.items():
        concerned = nw.col(CELL).is_in(numbers)
        if not is_tier:
            concerned &= nw.col(name) > 0
            if units.is_measure(priced.cells.optional[name].usage_key):
                # Beside tokens, seconds or characters only say how the tokens came about.
                concerned &= nw.col("prompt_tokens") + nw.col("completion_tokens") == 0
        for row in _count(priced, priced.calls.filter(concerned), engine):
            yield ("tier" if is_tier else "unit"), name, row


def _in_regions(
    priced: PricedCalls, book: PriceBook, engine: Engine
) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """Yield regions of which no price is known, with their number of calls by model."""
    if "region" not in priced.calls.collect_schema().names():
        return
    named = priced.calls.filter(nw.col("region") != "")
    for row in _count(priced, named, engine, ["region"]):
        listing = book.find_listing(row["provider"], row["model"])
        known = listing and find_region(listing.provider, listing.model, row["region"])
        if known is None:
            yield "region", row["region"], row


def _count(
    priced: PricedCalls, calls: Calls, engine: Engine, by: Sequence[str] = ()
) -> list[dict[str, Any]]:
    labels = priced.groups.select("group", *_MODEL, *priced.keys)
    at = nw.col("at_us")
    counted = (
        engine.attach(calls.select("group", "at_us", *by), labels, "group")
        .group_by(*priced.keys, *_MODEL, *by)
        .agg(nw.len().alias("calls"), at.min().alias("first_us"), at.max().alias("last_us"))
    )
    return engine.fetch(counted)
