"""Expressions that turn the rates of a call into dollars.

Rates are columns of the frame with a prefix, so that the same expressions give the cost of a call
at its own model and at its target. Counts beside the usual four are in some frames only: `optional`
are their columns with the units of the price book. Each costs a surcharge beyond the rates that its
tokens are billed at as part of the prompt or the answer.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_

import polars as pl

from detectors.prices import units

Optional = Mapping[str, units.Unit]


def input_usd(prefix: str, optional: Optional) -> pl.Expr:
    """Return the cost of the prompt.

    As in the book's own calculation, tokens read from or written to the cache are subtracted from
    the prompt only if they have a rate. If they exceed the prompt, no token is uncached, and each
    costs its cache rate, which is the input rate if the model has none.
    """
    read, written = pl.col("cached_tokens"), pl.col("cache_write_tokens")
    fits = pl.col("prompt_tokens") >= read + written
    own_read = pl.when(fits).then(read * pl.col(prefix + "has_cache_read")).otherwise(read)
    own_written = (
        pl.when(fits).then(written * pl.col(prefix + "has_cache_write")).otherwise(written)
    )
    # Not by `clip`, which takes three times as long.
    uncached = pl.max_horizontal(pl.col("prompt_tokens") - own_read - own_written, 0)
    total = (
        uncached * pl.col(prefix + "input")
        + own_read * pl.col(prefix + "cache_read")
        + own_written * pl.col(prefix + "cache_write")
    )
    for cost in _surcharges(prefix, optional, "input", uncached):
        total = total + cost
    for name, unit in optional.items():
        if (
            units.purpose(unit.usage_key) in ("cache_read", "cache_write")
            and unit.usage_key != units.CACHE_WRITE_1H
        ):
            total = total + pl.col(name) * pl.col(surcharge_column(prefix, name))
    if units.CACHE_WRITE_1H in optional:
        for_an_hour = pl.min_horizontal(pl.col(units.CACHE_WRITE_1H), written)
        total = total + for_an_hour * pl.col(surcharge_column(prefix, units.CACHE_WRITE_1H))
    return total


def rest_usd(prefix: str, optional: Optional) -> pl.Expr:
    total = pl.col("completion_tokens") * pl.col(prefix + "output") + pl.col(prefix + "request")
    for cost in _surcharges(prefix, optional, "output", pl.col("completion_tokens")):
        total = total + cost
    for name, unit in optional.items():
        if unit.dimensions["family"] != "tokens":
            total = total + pl.col(name) * pl.col(surcharge_column(prefix, name))
    return total


def surcharge_column(prefix: str, name: str) -> str:
    return f"{prefix}{name}_surcharge"


def _surcharges(
    prefix: str, optional: Optional, purpose: str, available: pl.Expr
) -> Iterator[pl.Expr]:
    """Yield the surcharge of each part, of at most as many tokens as are left of the whole.

    Counts do not say which cached tokens are sounds or images: as few as possible are, unless the
    call counts them.
    """
    overlapping = [name for name, unit in optional.items() if units.overlaps(unit.usage_key)]
    overlap = reduce(or_, (pl.col(name) > 0 for name in overlapping)) if overlapping else None
    before = pl.lit(0, pl.Int64)
    for name, unit in optional.items():
        if units.purpose(unit.usage_key) != purpose:
            continue
        rate = pl.col(surcharge_column(prefix, name))
        # A part without a rate of its own leaves all tokens to the others.
        own = pl.col(name) * (rate != 0).cast(pl.Int64)
        # From sums, since the expression of each part would contain those before it twice.
        part = pl.min_horizontal(own, (available - before).clip(lower_bound=0))
        before = before + own
        if overlap is not None:
            part = pl.when(overlap).then(pl.col(name)).otherwise(part)
        yield part * rate


def is_long(start: int) -> pl.Expr:
    """Check whether a prompt is longer than the start of a tier.

    Providers count all tokens of the prompt, cached or not. More cached tokens than prompt tokens
    are a prompt of their own length.
    """
    cached = pl.col("cached_tokens") + pl.col("cache_write_tokens")
    return (pl.col("prompt_tokens") > start) | (cached > start)
