"""A log in memory: its valid calls as a Polars frame, and its invalid rows by reason."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Self

import msgspec
import polars as pl

from detectors.contract import CLOCK_MARGIN, InvalidRow, InvalidRows
from detectors.engine import compose_labels, with_equal_types
from detectors.errors import UnreadableLogError
from detectors.formats import Chunk
from detectors.formats.columns import (
    COLUMNS,
    COUNTS,
    HASHES,
    OPTIONAL_COLUMNS,
    OPTIONAL_FLOATS,
    OPTIONAL_HASHES,
    OPTIONAL_NUMBERS,
    WRITTEN_LABELS,
    Columns,
    empty_value,
    lowered,
    present_columns,
)

FIRST_INVALID: Final = 100
_INVALID: Final = msgspec.json.Decoder(InvalidRows)
_INVALID_ROWS: Final = "tallystick.invalid_rows"  # a key of the Parquet file's metadata
_DROPPED_ROWS: Final = "tallystick.dropped_rows"
# One row per call; nulls only in latency_ms and reported_usd. Absent labels are "", absent counts
# 0. A log has a column of `OPTIONAL_CALLS` too, in this order, where some call has a value.
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
OPTIONAL_CALLS: Final = pl.Schema(
    {
        name: pl.Float64()
        if name in OPTIONAL_FLOATS
        else pl.Int64()
        if name in OPTIONAL_NUMBERS
        else pl.String()
        for name in OPTIONAL_COLUMNS
    }
)
_HASHES: Final = ("prefix_hash", *OPTIONAL_HASHES)
_NUMBERS: Final = (*COUNTS, *OPTIONAL_NUMBERS, *OPTIONAL_FLOATS, "latency_ms")


@dataclass
class InvalidTally:
    counts: Counter[str] = field(default_factory=Counter)
    first: list[InvalidRow] = field(default_factory=list)

    def add(self, rows: Iterable[InvalidRow]) -> None:
        for row in rows:
            self.counts[row.reason] += 1
            if len(self.first) < FIRST_INVALID:
                self.first.append(row)

    def summary(self) -> InvalidRows:
        reasons = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return InvalidRows(
            count=self.counts.total(), reasons=dict(reasons), first=tuple(self.first)
        )


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted already of a log's metered calls.

    These are rows by day, by provider and model, and by names of numbers that we don't know.
    """

    days: list[dict[str, Any]]
    models: list[dict[str, Any]]
    unknown: list[dict[str, Any]]


class ReadRows:
    """The rows of a log and the invalid ones among them."""

    __slots__ = ()
    rows: int
    invalid: InvalidRows
    dropped: Mapping[str, int]  # rows that were no calls to bill, by reason

    @property
    def valid_pct(self) -> float:
        return 100.0 * (self.rows - self.invalid.count) / self.rows if self.rows else 0.0

    @property
    def least_days(self) -> int:
        """Return the observed days that it takes to project monthly dollars."""
        return 0

    @property
    def is_account(self) -> bool:
        """Check whether these are an account's calls up to now.

        Then each is once already, and none at their newer end is an outlier.
        """
        return False

    @property
    def future_calls(self) -> int:
        return 0

    @property
    def counted(self) -> Counted | None:
        """Return the counts of the calls, if they were counted already and are the only log."""
        return None


@dataclass(frozen=True)
class UsageLog(ReadRows):
    """The valid calls of a log, in its order, and its invalid rows."""

    frame: pl.DataFrame
    rows: int
    invalid: InvalidRows
    future_calls: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)

    def received(self, at: datetime) -> Self:
        """Return the log with the number of calls that were in the future when it arrived."""
        return replace(self, future_calls=int((self.frame["ts"] > at + CLOCK_MARGIN).sum()))


class Summary(msgspec.Struct, frozen=True):
    """What was read of a log beside its calls; `dropped` counts rows that were no calls."""

    rows: int
    invalid: InvalidRows
    dropped: Mapping[str, int] = {}


# Takes the calls of a log as they are read, a frame at a time.
Add = Callable[[pl.DataFrame], None]


def from_chunks(chunks: Iterable[Chunk]) -> UsageLog:
    frames = list[pl.DataFrame]()
    read = add_chunks(chunks, frames.append)
    return UsageLog(concat(frames), read.rows, read.invalid, dropped=read.dropped)


def add_chunks(chunks: Iterable[Chunk], add: Add) -> Summary:
    """Turn a reader's chunks into frames of calls."""
    tally, rows, dropped = InvalidTally(), 0, Counter[str]()
    for chunk in chunks:
        dropped.update(chunk.dropped)
        add(from_columns(chunk.columns))
        tally.add(chunk.invalid)
        rows += chunk.rows
    return Summary(rows, tally.summary(), dropped)


def concat(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    names = present_columns(name for frame in frames for name in frame.columns)
    optional = names[len(COLUMNS) :]
    complete = [*frames] or [CALLS.to_frame()]
    for place, frame in enumerate(complete if optional else ()):
        # Add the optional columns that the frame lacks, in the order of all.
        absent = [
            pl.lit(empty_value(name), OPTIONAL_CALLS[name]).alias(name)
            for name in optional
            if name not in frame.columns
        ]
        complete[place] = frame.with_columns(absent).select(*CALLS, *optional)
    # Not rechunked, because that would take twice the memory.
    return pl.concat(with_equal_types(complete))


def from_columns(columns: Columns) -> pl.DataFrame:
    series = []
    for name in present_columns(columns):
        values = columns[name]
        if name == "ts":
            series.append(pl.Series(name, values, pl.Int64).cast(CALLS[name]))
        elif name not in _NUMBERS and not any(values):
            # No call has this label: a constant column is faster.
            series.append(pl.Series(name, [""], pl.String).new_from_index(0, len(values)))
        else:
            # Upper and lower case digits mean the same, but the rules compare hashes as text.
            own = lowered(values) if name in _HASHES else values
            series.append(pl.Series(name, own, CALLS.get(name) or OPTIONAL_CALLS[name]))
    return compose_labels(pl.DataFrame(series), WRITTEN_LABELS)


def write_log(log: UsageLog, file: str | Path | IO[bytes]) -> None:
    """Write the calls as Parquet, with the invalid rows; the same log gives the same bytes."""
    metadata = {_INVALID_ROWS: msgspec.json.encode(log.invalid).decode()}
    if log.dropped:
        metadata[_DROPPED_ROWS] = msgspec.json.encode(log.dropped).decode()
    to_bytes(log.frame).rechunk().write_parquet(
        file, compression="zstd", row_group_size=250_000, metadata=metadata
    )


def to_bytes(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the calls as files have them: hashes by level take half as many bytes as digits."""
    if HASHES not in frame.columns:
        return frame
    return frame.with_columns(pl.col(HASHES).cast(pl.String).str.decode("hex"))


def from_bytes(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of a file with texts for hashes by level."""
    if frame.schema.get(HASHES) != pl.Binary:
        return frame
    return frame.with_columns(pl.col(HASHES).bin.encode("hex"))


def read_log(file: Path | BinaryIO) -> UsageLog:
    """Read what `write_log` wrote; anything else raises `UnreadableLogError`."""
    try:
        binary = file.open("rb") if isinstance(file, Path) else nullcontext(file)
        with binary as opened:
            metadata = pl.read_parquet_metadata(opened)
            opened.seek(0)
            frame = from_bytes(pl.read_parquet(opened))
        invalid = _INVALID.decode(metadata[_INVALID_ROWS])
        dropped = msgspec.json.decode(metadata.get(_DROPPED_ROWS, "{}"), type=dict[str, int])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableLogError("The file is not a frame of calls in Parquet.") from error
    except (KeyError, msgspec.MsgspecError) as error:
        raise UnreadableLogError("The Parquet file has no summary of invalid rows.") from error
    if "service_tier" not in frame.columns:  # frames of the first versions
        frame = frame.with_columns(pl.lit("").alias("service_tier"))
    optional = [name for name in OPTIONAL_CALLS if name in frame.columns]
    if frame.schema != CALLS | {name: OPTIONAL_CALLS[name] for name in optional}:
        raise UnreadableLogError("The Parquet file lacks columns of a frame of calls.")
    # An earlier release has stored labels as they came.
    frame = compose_labels(frame, WRITTEN_LABELS)
    return UsageLog(frame, frame.height + invalid.count, invalid, dropped=dropped)
