"""Counts of some calls, as tables that add up: those of all parts are those of the whole.

A log is a number, 0 unless several are audited at once. Times are microseconds since 1970 in UTC.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import polars as pl

from detectors.engine import Calls, Row, collect_all
from detectors.engine.levels import LEVEL_COLUMNS
from detectors.engine.lookup import gather
from detectors.formats.columns import ASSUMED, HASHES, UNKNOWN, UNKNOWN_LARGEST
from detectors.report.counting.projection import DAY_US

Counts = dict[str, pl.DataFrame]
Queries = dict[str, Calls]  # that `collect_tables` computes

DAYS: Final = "days"
PLAN_DAYS: Final = "days of plans"
SECONDS: Final = "seconds"
MODELS: Final = "models"
UNKNOWN_FIELDS: Final = "unknown fields"
PLAN_USAGE: Final = "plan usage"
MISSING_RATES: Final = "missing rates"
NEWEST: Final = "newest calls"
LENGTHS: Final = "lengths of prompts"
ROUTES: Final = "routes"

TOKENS: Final = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
_DAY: Final = ("log", "day")
_WORD: Final = 64  # seconds, one bit each
_WORDS_OF_DAY: Final = 86_400 // _WORD
_BITS: Final = pl.Series("bits", [1 << place for place in range(_WORD)], pl.UInt64)
_SECOND_US: Final = 1_000_000


class _Table(msgspec.Struct, frozen=True):
    """The columns of a table of counts: its keys, and how the others are added up."""

    keys: tuple[str, ...]
    sums: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    most: tuple[str, ...] = ()
    bits: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        return [*self.keys, *self.sums, *self.least, *self.most, *self.bits]

    def add(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return (
            pl.concat([frame.select(self.columns) for frame in frames], how="vertical_relaxed")
            .group_by(self.keys)
            .agg(
                pl.col(self.sums).sum(),
                pl.col(self.least).min(),
                pl.col(self.most).max(),
                pl.col(self.bits).bitwise_or(),
            )
        )


_TIMES: Final = {"least": ("first_us",), "most": ("last_us",)}
_OF_DAY: Final = ("calls", "overfull", "hashed", "assumed", "tokens")
_TABLES: Final = {
    DAYS: _Table(_DAY, _OF_DAY, **_TIMES),
    PLAN_DAYS: _Table(_DAY, _OF_DAY, **_TIMES),
    SECONDS: _Table(("log", "word"), bits=("bits",)),
    MODELS: _Table(("log", "provider", "model"), ("calls", "tokens")),
    UNKNOWN_FIELDS: _Table(("log", UNKNOWN), ("calls",), most=(UNKNOWN_LARGEST,)),
    PLAN_USAGE: _Table(
        ("log", "route_label", "provider", "model"),
        ("calls", "priced_calls", *TOKENS, "cost_usd_units"),
        **_TIMES,
    ),
    NEWEST: _Table((*_DAY, "at_us"), ("calls",)),
    MISSING_RATES: _Table(("log", "kind", "name", "provider", "model"), ("calls",), **_TIMES),
    LENGTHS: _Table(("bin", "prompt_tokens"), ("calls",)),
    ROUTES: _Table(("bin", "route_label")),
}


def add_counts(counted: Iterable[Counts]) -> Counts:
    tables: dict[str, list[pl.DataFrame]] = {}
    for counts in counted:
        for name, table in counts.items():
            tables.setdefault(name, []).append(table)
    return {
        name: _TABLES[name].add(frames) if len(frames) > 1 else frames[0]
        for name, frames in tables.items()
    }


def rows_of(counts: Counts, name: str) -> list[Row]:
    return counts[name].rows(named=True) if name in counts else []


def count_calls(calls: Calls, keys: Sequence[str] = ()) -> Queries:
    """Count calls by day, by second, by model and by the names of unknown numbers.

    `keys` has the column that numbers the logs if there are several.
    """
    names = calls.collect_schema().names()
    # Each second with a call is marked as a bit: parts may have calls in the same second.
    second = pl.col("at_us") // _SECOND_US
    placed = calls.select(*keys, (second // _WORD).alias("word"), (second % _WORD).alias("place"))
    marked = placed.with_columns(gather(_BITS, "place"))
    seconds = marked.group_by(*keys, "word").agg(pl.col("bits").bitwise_or())
    tables = {DAYS: _count_days(calls, names, keys), SECONDS: seconds}
    tokens = (pl.col("prompt_tokens") + pl.col("completion_tokens")).alias("tokens")
    label = (*keys, "provider", "model")
    counted = calls.select(*label, tokens).group_by(label)
    sums = (pl.len().cast(pl.Int64).alias("calls"), pl.col("tokens").sum())
    tables[MODELS] = counted.agg(sums).with_columns(pl.col("provider", "model").cast(pl.String))
    if UNKNOWN in names:
        tables[UNKNOWN_FIELDS] = _count_unknown(calls, names, keys)
    return tables


def count_newest(calls: Calls, most: int, keys: Sequence[str] = ()) -> Queries:
    """Count the calls at the newest times of each day: enough to see whether a window has few."""
    at, key = pl.col("at_us"), [*keys, "day"]
    newest = (
        calls.select(*keys, (at // DAY_US).alias("day"), "at_us")
        .group_by(key)
        .agg(at.top_k(most))
        .explode("at_us")
        .group_by(*key, "at_us")
        .agg(pl.len().cast(pl.Int64).alias("calls"))
    )
    return {NEWEST: newest}


def count_of_plans(calls: Calls, keys: Sequence[str] = ()) -> Queries:
    """Count the calls that plans include, of which only what is wrong with their records counts."""
    names = calls.collect_schema().names()
    tables = {PLAN_DAYS: _count_days(calls, names, keys)}
    if UNKNOWN in names:
        tables[UNKNOWN_FIELDS] = _count_unknown(calls, names, keys)
    return tables


def collect_tables(tables: Queries, keys: Sequence[str] = ()) -> Counts:
    """Compute tables together; they get a column `log` unless several logs are counted."""
    log = [] if keys else [pl.lit(0, pl.Int32).alias("log")]
    numbered = [table.with_columns(log) for table in tables.values()]
    return dict(zip(tables, collect_all(numbered), strict=True))


def _count_days(calls: Calls, names: Sequence[str], keys: Sequence[str]) -> Calls:
    at = pl.col("at_us")
    cached = pl.col("cached_tokens") + pl.col("cache_write_tokens")
    is_hashed = pl.col("prefix_hash") != ""
    if HASHES in names:
        is_hashed |= pl.col(HASHES) != ""
    elif LEVEL_COLUMNS[0] in names:
        is_hashed |= pl.col(LEVEL_COLUMNS[0]) > 0
    assumed = pl.col(ASSUMED).fill_null(0) if ASSUMED in names else pl.lit(0, pl.Int64)
    return (
        calls.select(
            *keys,
            "at_us",
            (at // DAY_US).alias("day"),
            (cached > pl.col("prompt_tokens")).alias("overfull"),
            is_hashed.alias("hashed"),
            assumed.alias("assumed"),
            (pl.col("prompt_tokens") + pl.col("completion_tokens")).alias("tokens"),
        )
        .group_by(*keys, "day")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            at.min().alias("first_us"),
            at.max().alias("last_us"),
            pl.col("overfull", "hashed", "assumed", "tokens").cast(pl.Int64).sum(),
        )
    )


def days_of(counts: Counts) -> list[Row]:
    """Return the rows of days with the number of their seconds that have a call."""
    if DAYS not in counts:
        return []
    seconds = pl.col("bits").bitwise_count_ones().cast(pl.Int64).sum().alias("seconds")
    by_day = counts[SECONDS].group_by("log", (pl.col("word") // _WORDS_OF_DAY).alias("day"))
    return counts[DAYS].join(by_day.agg(seconds), on=_DAY).sort(_DAY).rows(named=True)


def _count_unknown(calls: Calls, names: Sequence[str], keys: Sequence[str]) -> Calls:
    """Count the calls by the names of the numbers that we don't know in their usage."""
    if UNKNOWN_LARGEST not in names:  # a column without a value costs nothing
        calls = calls.with_columns(pl.lit(0, pl.Int64).alias(UNKNOWN_LARGEST))
    named = calls.filter(pl.col(UNKNOWN).fill_null("") != "")
    largest = pl.col(UNKNOWN_LARGEST).max().fill_null(0)
    grouped = named.group_by(*keys, pl.col(UNKNOWN).cast(pl.String))
    return grouped.agg(pl.len().cast(pl.Int64).alias("calls"), largest)
