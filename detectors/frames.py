"""Calls as a Polars frame in the CALLS schema: reading a log into one, keeping it, echoes.

Everything that the rules see passes through here, whatever it came as.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, cast

import polars as pl

from detectors.contract import InvalidRows, UsageRecord
from detectors.errors import UnreadableLogError
from detectors.formats import read_chunks
from detectors.formats.chunks import Chunk, InvalidTally
from detectors.formats.columns import COLUMNS, COUNTS, Columns
from detectors.formats.items import read_items
from detectors.tables import find_frame, read_table

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
    }
)

Progress = Callable[[int, int], None]
Source = str | os.PathLike[str] | IO[bytes] | Iterable[UsageRecord | dict[str, Any]] | Any


@dataclass(frozen=True)
class UsageLog:
    """The valid calls of a log, in its order, and what became of the other rows."""

    frame: pl.DataFrame
    rows: int
    invalid: InvalidRows

    @property
    def valid_pct(self) -> float:
        """Percentage of valid rows, 0 to 100; 0 for a log without rows."""
        return 100.0 * (self.rows - self.invalid.count) / self.rows if self.rows else 0.0


def read(
    source: Source, *, processes: int | None = None, progress: Progress | None = None
) -> UsageLog:
    """The log of a path, an open binary file, an iterable of records or dicts, or a frame.

    A large file of JSON lines, given as a path, is read by up to `processes` processes: by
    default one a core, at most four. `progress` hears bytes done and bytes in all.

    Raises
    ------
    ContractError
        A field outside the contract is present.
    UnreadableLogError
        The source is in none of the formats, or breaks off.
    """
    if isinstance(source, str | os.PathLike):
        with Path(source).open("rb") as file:
            return _read_file(file, progress)
    if hasattr(source, "read"):
        return _read_file(cast(BinaryIO, source), progress)
    table = find_frame(source)
    if table is None:
        return from_records(cast(Iterable[UsageRecord | dict[str, Any]], source))
    frame, invalid, rows = read_table(table)
    tally = InvalidTally()
    tally.add(invalid)
    return UsageLog(frame.select(CALLS.names()), rows, tally.summary())


def _read_file(file: BinaryIO, progress: Progress | None) -> UsageLog:
    return from_chunks(read_chunks(file))


def from_columns(columns: Columns) -> pl.DataFrame:
    """The frame of checked columns."""
    series = [pl.Series("ts", columns["ts"], pl.Int64).cast(CALLS["ts"])]
    series += [_series(name, columns[name]) for name in COLUMNS if name != "ts"]
    return pl.DataFrame(series).select(CALLS.names())


def _series(name: str, values: list[Any]) -> pl.Series:
    if name == "latency_ms" or name in COUNTS or any(values):
        return pl.Series(name, values, CALLS[name])
    # A label that no call carries: no need to walk the list again.
    return pl.repeat("", len(values), dtype=pl.String, eager=True).alias(name)


def from_records(records: Iterable[UsageRecord | dict[str, Any]]) -> UsageLog:
    """The log of records, or of dicts with a record's fields, checked like any other source."""
    return from_chunks(read_items(records))


def from_chunks(chunks: Iterable[Chunk]) -> UsageLog:
    """The log that a reader's chunks make up."""
    frames, tally, rows = [CALLS.to_frame()], InvalidTally(), 0
    for chunk in chunks:
        frames.append(from_columns(chunk.columns))
        tally.add(chunk.invalid)
        rows += chunk.rows
    return UsageLog(pl.concat(frames, rechunk=False), rows, tally.summary())


def drop_echoes(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The frame without log echoes, and how many were dropped.

    Rows equal in every field, with a non-empty request id, are one call logged twice: the first
    stays.
    """
    named = frame["request_id"] != ""
    candidates = (named & frame["request_id"].is_duplicated()).arg_true()
    if candidates.is_empty():
        return frame, 0
    calls = frame[candidates].with_columns(candidates.alias("row"))
    first = calls.unique(subset=CALLS.names(), keep="first")
    echoes = calls.join(first, on="row", how="anti")["row"]
    rows = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
    return frame.filter(~rows.is_in(echoes.implode())), echoes.len()


def write_frame(frame: pl.DataFrame, file: str | Path | IO[bytes]) -> None:
    """Write the frame as Parquet; the same frame gives the same bytes."""
    frame.rechunk().write_parquet(file, compression="zstd", row_group_size=250_000)


def read_frame(file: str | Path | IO[bytes]) -> pl.DataFrame:
    """The frame that `write_frame` wrote; raises `UnreadableLogError` for anything else."""
    try:
        frame = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableLogError("the file is not a frame of calls in Parquet") from error
    if frame.schema != CALLS:
        raise UnreadableLogError("the Parquet file does not have the columns of a frame of calls")
    return frame
