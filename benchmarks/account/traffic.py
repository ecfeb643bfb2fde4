"""Calls of an account: 30 days of 400 routes in three environments, in order of time.

Each import has the calls of one service, with ten routes, in one environment.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final

import polars as pl

from benchmarks.usage import MODELS
from detectors.frames.usage_log import CALLS

DAYS: Final = 30
ROUTES: Final = 400
ENVIRONMENTS: Final = ("production", "staging", "development")
_SERVICES: Final = 40
_DAY_US: Final = 86_400_000_000
_ROUTE: Final = pl.col("route")


def first_day() -> datetime:
    """Return the first of the last thirty days that are over."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=DAYS)


def calls_of_day(day: int, calls: int, imports: int, first: datetime) -> pl.DataFrame:
    """Return a frame of the calls of a day, which come in so many imports."""
    row = pl.int_range(day * calls, (day + 1) * calls, dtype=pl.Int64)
    of_day = pl.col("row") - day * calls
    service = (of_day * imports // calls) % _SERVICES
    own_routes = ROUTES // _SERVICES
    route = service * own_routes + ((_chance(1) ** 2) * own_routes).cast(pl.Int64)
    frame = pl.select(row.alias("row")).lazy().with_columns(route.alias("route"))
    since = of_day * _DAY_US // calls
    labels = pl.lit(first + timedelta(days=day), CALLS["ts"]) + pl.duration(microseconds=since)
    environment = (of_day * imports // calls) // _SERVICES % len(ENVIRONMENTS)
    return (
        frame.with_columns(labels.alias("ts"), *_texts(), *_counts())
        .with_columns((_chance(5) * 3_000).alias("latency_ms"))
        .with_columns(pl.lit(pl.Series(ENVIRONMENTS)).gather(environment).alias("environment"))
        .select(*CALLS.names(), "environment")
        .collect()
    )


def _texts() -> list[pl.Expr]:
    models = pl.Series([MODELS[number % len(MODELS)] for number in range(ROUTES)])
    hashes = pl.Series([hashlib.sha256(str(each).encode()).hexdigest() for each in range(ROUTES)])
    prefix = pl.when(_ROUTE % 20 == 5).then(pl.lit(hashes).gather(_ROUTE)).otherwise(pl.lit(""))
    return [
        pl.lit("openai").alias("provider"),
        pl.lit(models).gather(_ROUTE).alias("model"),
        pl.lit("").alias("endpoint"),
        pl.format("chatcmpl-{}", pl.col("row")).alias("request_id"),
        pl.format("route-{}", _ROUTE).alias("tag"),
        prefix.alias("prefix_hash"),
        pl.lit("").alias("service_tier"),
    ]


def _counts() -> list[pl.Expr]:
    prompt = ((400 + 15 * _ROUTE) * (0.5 + _chance(2))).cast(pl.Int64)
    limit = pl.lit(256, pl.Int64) * pl.lit(2, pl.Int64).pow(_ROUTE % 5)
    return [
        prompt.alias("prompt_tokens"),
        ((20 + 17 * (_ROUTE % 23)) * (0.5 + _chance(3))).cast(pl.Int64).alias("completion_tokens"),
        pl.when(_ROUTE % 3 == 0).then(prompt // 2).otherwise(0).alias("cached_tokens"),
        pl.lit(0, pl.Int64).alias("cache_write_tokens"),
        pl.when(_ROUTE % 4 == 1).then(limit).otherwise(0).alias("declared_max_tokens"),
    ]


def _chance(seed: int) -> pl.Expr:
    """Return a pseudo-random number from 0 to 1 that depends on the row only."""
    return pl.col("row").hash(seed).cast(pl.Float64) / 2.0**64
