"""The schema of a frame of calls, and the way from columns into it."""

from typing import Any, Final

import polars as pl

from detectors.formats.columns import COLUMNS, COUNTS, Columns

# One row a call; no nulls but in latency_ms. Absent labels are "" and absent counts 0.
CALLS: Final = pl.Schema(
    {
        "ts": pl.Datetime("us", "UTC"),
        "provider": pl.String(),
        "model": pl.String(),
        "endpoint": pl.String(),
        "request_id": pl.String(),
        "tag": pl.String(),
        "prefix_hash": pl.String(),
        "prompt_tokens": pl.Int64(),
        "completion_tokens": pl.Int64(),
        "cached_tokens": pl.Int64(),
        "cache_write_tokens": pl.Int64(),
        "declared_max_tokens": pl.Int64(),
        "latency_ms": pl.Float64(),
        "service_tier": pl.String(),  # "", or one of `SERVICE_TIERS`
    }
)


def from_columns(columns: Columns) -> pl.DataFrame:
    """The frame of checked columns."""
    series = [pl.Series("ts", columns["ts"], pl.Int64).cast(CALLS["ts"])]
    series += [_series(name, columns[name]) for name in COLUMNS if name != "ts"]
    # A digest is the same in either case, and the rules compare hashes as text.
    lowered = pl.col("prefix_hash").str.to_lowercase()
    return pl.DataFrame(series).select(CALLS.names()).with_columns(lowered)


def _series(name: str, values: list[Any]) -> pl.Series:
    if name == "latency_ms" or name in COUNTS or any(values):
        return pl.Series(name, values, CALLS[name])
    # A label that no call carries: no need to walk the list again.
    return pl.repeat("", len(values), dtype=pl.String, eager=True).alias(name)
