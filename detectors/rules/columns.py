"""Columns that rules derive from the calls, some of which exist only where some call has them."""

import polars as pl

from detectors.engine import Calls


def has(calls: Calls, name: str) -> bool:
    return name in calls.collect_schema().names()


def count_of(calls: Calls, name: str) -> pl.Expr:
    """Return an optional count, 0 where no call has it."""
    return pl.col(name) if has(calls, name) else pl.lit(0, pl.Int64)


def answer_tokens(calls: Calls) -> pl.Expr:
    """Return the tokens of the visible answer: completion tokens without reasoning."""
    completion = pl.col("completion_tokens")
    if not has(calls, "reasoning_tokens"):
        return completion
    return (completion - pl.col("reasoning_tokens")).clip(lower_bound=0)
