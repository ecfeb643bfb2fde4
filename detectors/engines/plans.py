"""Query plans of Polars that are made once and run on other frames of the same columns.

A Narwhals expression becomes a Polars expression each time it is used, which takes most of the time
of an audit of few calls. A plan reads its inputs from slots, which are filled for each use.
"""

import threading
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

import narwhals.stable.v2 as nw
import polars as pl
from polars.io.plugins import register_io_source

from detectors.engines.engine import Calls, Plan

_MOST_PLANS: Final = 100


class _Slot:
    """A place in a plan for a frame."""

    def __init__(self) -> None:
        self.frame = pl.DataFrame()

    def scan(self, schema: pl.Schema) -> Calls:
        calls: Calls = nw.from_native(register_io_source(self._read, schema=schema, is_pure=True))
        return calls

    def _read(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        _batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        frame = self.frame if columns is None else self.frame.select(columns)
        frame = frame if predicate is None else frame.filter(predicate)
        yield frame if n_rows is None else frame.head(n_rows)


class _Plans(threading.local):
    """The plans of one thread, because a running plan's slots are filled."""

    def __init__(self) -> None:
        self.known: dict[tuple[Hashable, Hashable], tuple[list[_Slot], list[pl.LazyFrame]]] = {}


_plans = _Plans()


def has_planned(name: str) -> bool:
    """Check whether this thread has made a plan whose name begins with this text."""
    names = (known for known, _ in _plans.known if isinstance(known, tuple))
    return any(known[0] == name for known in names)


def run_again(name: Hashable, plan: Plan, frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Compute a plan over these frames; it is made at its first use with such columns."""
    key = (name, tuple(tuple(frame.schema.items()) for frame in frames))
    if key not in _plans.known:
        if len(_plans.known) >= _MOST_PLANS:
            _plans.known.clear()
        _plans.known[key] = _make(plan, frames)
    slots, queries = _plans.known[key]
    for slot, frame in zip(slots, frames, strict=True):
        slot.frame = frame
    try:
        # With few rows, optimizing and streaming take longer than they save.
        unoptimized = pl.QueryOptFlags.none()
        return pl.collect_all(queries, optimizations=unoptimized, engine="in-memory")
    finally:
        for slot in slots:
            slot.frame = pl.DataFrame()


def _make(plan: Plan, frames: Sequence[pl.DataFrame]) -> tuple[list[_Slot], list[pl.LazyFrame]]:
    slots = [_Slot() for _ in frames]
    scans = [slot.scan(frame.schema) for slot, frame in zip(slots, frames, strict=True)]
    return slots, [calls.to_native() for calls in plan(*scans)]
