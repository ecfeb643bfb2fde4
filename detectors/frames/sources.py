"""Reads a log from any source: a path, an open file, records or a frame.

Every audit starts with `place`.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, NamedTuple, cast

import polars as pl

from detectors.contract import InvalidRow, UsageRecord
from detectors.engine import Calls, with_texts
from detectors.errors import ColumnMappingError, UnreadableLogError
from detectors.formats.chunks import Chunk
from detectors.formats.csv_logs.mapping import Mapped, as_mapping
from detectors.formats.detection import detect_format
from detectors.formats.problems import ContractCheck
from detectors.formats.reader import check_times, read_chunks
from detectors.formats.records.items import read_items
from detectors.formats.text.blocks import SIGNATURE_BYTES, Advance, is_packed, read_blocks
from detectors.formats.text.encodings import UTF8_BOM, find_utf16
from detectors.frames.inputs import find_table, scan_parquet
from detectors.frames.parts import (
    CheckedCalls,
    Collector,
    InMemory,
    Parts,
    Share,
    alike,
    number_buckets,
)
from detectors.frames.range_workers import read_ranges
from detectors.frames.ranges import RANGE_BYTES, Ranges
from detectors.frames.tables import check_table
from detectors.frames.usage_log import (
    CALLS,
    OPTIONAL_CALLS,
    Add,
    InvalidTally,
    Summary,
    UsageLog,
    add_chunks,
    concat,
)

# Below this, starting another process takes longer than it saves.
PARALLEL_BYTES: Final = 20 << 20
# Below this, finding the form of the lines takes longer than it saves.
UNIFORM_BYTES: Final = 1 << 20
MAX_PROCESSES: Final = 4

_AT_US: Final = pl.col("ts").dt.timestamp("us").alias("at_us")

# Files and frames whose rows can be counted before they are read.
_COUNTED: Final = (str, os.PathLike, pl.DataFrame, pl.LazyFrame)
Progress = Callable[[int, int], None]
Source = str | os.PathLike[str] | IO[bytes] | Iterable[UsageRecord | dict[str, Any]] | Any


def read(
    source: Source,
    *,
    mapping: Mapped | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> UsageLog:
    """Read the log of a path, an open binary file, an iterable of records or dicts, or a frame.

    Parameters
    ----------
    source : path, binary file, iterable of records or dicts, or frame
        A file in a format that uploads accept, Parquet files, or rows with the fields of
        `UsageRecord`.
    mapping : dict or ColumnMapping, optional
        The columns of a CSV with other names, such as ``{"created_at": "ts", "cost": None}``; None
        drops a column.
    processes : int, optional
        How many processes read a large file of JSON lines that is given as a path. The default is
        one per core, at most four.
    progress : callable of (int, int), optional
        Receives the bytes read so far and the size of the file.

    Returns
    -------
    UsageLog
        The valid calls as a Polars frame, in the order of the source, and the other rows by line
        and reason. The frame has 14 columns, and one for each other field that some call has.

    Raises
    ------
    ContractError
        A field outside the contract is present.
    ColumnMappingError
        The mapping does not fit the file's columns.
    UnreadableLogError
        The source is in no known format, damaged or incomplete.
    """
    frames = list[pl.DataFrame]()
    options = _Options(mapping, processes=processes, progress=progress)
    table = None if mapping is not None else _find_table(source, None)
    if table is not None:
        read, unused = check_table(table, frames.append, has_texts=True)
        checked = pl.concat(alike(frames)).drop(unused)
        if "service_tier" not in checked.columns:
            checked = checked.with_columns(pl.lit("").alias("service_tier"))
        if "latency_ms" not in checked.columns:
            checked = checked.with_columns(pl.lit(None, pl.Float64).alias("latency_ms"))
        ts = pl.col("at_us").cast(CALLS["ts"]).alias("ts")
        names = [*CALLS.names()[1:], *(name for name in OPTIONAL_CALLS if name in checked.columns)]
        return UsageLog(with_texts(checked.select(ts, *names)), read.rows, read.invalid)
    read = _read(source, frames.append, options)
    return UsageLog(concat(frames), read.rows, read.invalid, dropped=read.dropped)


def place(
    source: "Source | UsageLog",
    named: str | None = None,
    *,
    mapping: Mapped | None = None,
    progress: Progress | None = None,
    scratch: str | os.PathLike[str] | None = None,
    only: Share | None = None,
    in_files: bool = False,
) -> CheckedCalls:
    """Return the checked calls of any source; `named` is what reads Parquet files.

    Calls that don't fit into memory, or all of them with `in_files`, are put into files of the
    folder `scratch`, by default that for temporary files. `only` keeps the calls of one part.
    """
    if isinstance(source, CheckedCalls):
        return source
    if named is None and isinstance(source, UsageLog):
        frame = checked_calls(source.frame).collect()
        if only is not None:
            frame = frame.filter(only.has(number_buckets(frame)))
        calls: Parts = InMemory([frame], is_one_part=only is not None)
        if in_files:
            collector = Collector(scratch, in_files=True)
            collector.add(frame)
            calls = collector.finish()
        future = source.future_calls
        return CheckedCalls(
            calls, source.rows, source.invalid, future_calls=future, dropped=source.dropped
        )
    table = None if mapping is not None else _find_table(source, named)
    if table is not None:
        count = partial(_count_rows, table) if isinstance(source, _COUNTED) else None
        collector = Collector(scratch, count, only, in_files=in_files)
        with collector:
            read, unused = check_table(table, collector.add)
            return CheckedCalls(collector.finish(unused), read.rows, read.invalid)
    collector = Collector(scratch, only=only, in_files=in_files)
    options = _Options(mapping, progress=collector.watch(progress), has_categories=True)
    with collector:
        read = _read(source, lambda frame: collector.add(checked_calls(frame).collect()), options)
        return CheckedCalls(collector.finish(), read.rows, read.invalid, dropped=read.dropped)


def _count_rows(table: Calls) -> int:
    return int(table.select(pl.len()).collect().item())


def place_together(logs: Sequence[pl.DataFrame]) -> Calls:
    """Return the checked calls of several logs, with the number of the log as `log`."""
    numbers = [
        pl.repeat(number, frame.height, dtype=pl.Int32, eager=True)
        for number, frame in enumerate(logs)
    ]
    numbered = checked_calls(concat(logs)).with_columns(pl.concat(numbers).alias("log"))
    return numbered.collect().lazy()


def checked_calls(frame: pl.DataFrame) -> pl.LazyFrame:
    """Return the columns of checked calls; tiers and latencies only if some call has one."""
    unused = ["ts"]
    if not (frame["service_tier"] != "").any():
        unused.append("service_tier")
    if frame["latency_ms"].null_count() == frame.height:
        unused.append("latency_ms")
    return frame.lazy().select(_AT_US, pl.exclude(unused))


class _Options(NamedTuple):
    """How a source is read. With `has_categories`, labels that repeat may be categories."""

    mapping: Mapped | None = None
    processes: int | None = None
    progress: Progress | None = None
    has_categories: bool = False


def _find_table(source: Source, named: str | None) -> Calls | None:
    """Return the unread columns of a table or of Parquet files, or None for another source."""
    if named is not None or _is_parquet(source):
        return scan_parquet(source, named or "polars")
    return None if isinstance(source, str | os.PathLike) else find_table(source)


def _read(source: Source, add: Add, options: _Options) -> Summary:
    if options.mapping is not None:
        return add_chunks(_read_mapped(source, options.mapping, options.progress), add)
    if isinstance(source, str | os.PathLike):
        with Path(source).open("rb") as file:
            return _read_path(file, add, options)
    if hasattr(source, "read"):
        chunks = read_chunks(cast(BinaryIO, source))
    elif isinstance(source, Iterable):
        chunks = read_items(cast(Iterable[UsageRecord | dict[str, Any]], source))
    else:
        raise TypeError("expected a path, an open binary file, an iterable or a frame")
    return add_chunks(chunks, add)


def _read_mapped(source: Source, mapping: Mapped, progress: Progress | None) -> Iterator[Chunk]:
    """Yield the chunks of a CSV file whose columns are mapped."""
    columns = as_mapping(mapping)
    if isinstance(source, str | os.PathLike) and not _is_parquet(source):
        with Path(source).open("rb") as file:
            advance = progress and _advance(progress, os.fstat(file.fileno()).st_size)
            yield from read_chunks(file, mapping=columns, advance=advance)
    elif _is_parquet(source):
        raise ColumnMappingError(
            "This file is Parquet, and only columns of a CSV can be mapped: use no mapping."
        )
    elif hasattr(source, "read"):
        yield from read_chunks(cast(BinaryIO, source), mapping=columns)
    else:
        raise TypeError("a mapping is for a CSV file; rename the columns of a frame instead")


def _is_parquet(source: object) -> bool:
    return isinstance(source, str | os.PathLike) and os.fspath(source).endswith(".parquet")


def _read_path(file: BinaryIO, add: Add, options: _Options) -> Summary:
    # Only some systems know the cores that this process may use.
    usable = getattr(os, "sched_getaffinity", None)
    cores = len(usable(0)) if usable else os.cpu_count() or 1
    processes = options.processes or min(cores, MAX_PROCESSES)
    size = os.fstat(file.fileno()).st_size
    advance = None if options.progress is None else _advance(options.progress, size)
    ranges = _find_ranges(file, size, options.has_categories) if size >= UNIFORM_BYTES else None
    if ranges:
        is_large = processes > 1 and size >= PARALLEL_BYTES
        first = None if is_large else ranges.read_uniform(0)
        if first or is_large:
            results = read_ranges(ranges, processes if is_large else 1, advance, first)
            # Lines count from 1 in each range.
            tally, check, before, calls, untimed = InvalidTally(), ContractCheck("line"), 0, 0, 0
            for notes, frame in results:
                check.add(notes.unknown_fields, before)
                tally.add(InvalidRow(before + row.line, row.reason) for row in notes.invalid)
                add(frame)
                calls += frame.height
                before += notes.lines
                untimed += notes.untimed
                if notes.error:
                    check.close()
                    raise UnreadableLogError(notes.error)
            check.close()
            invalid = tally.summary()
            check_times(untimed, calls + invalid.count)
            return Summary(calls + invalid.count, invalid)
    return add_chunks(read_chunks(file, advance=advance), add)


def _advance(progress: Progress, size: int) -> Advance:
    return lambda done: progress(done, size)


def _find_ranges(file: BinaryIO, size: int, has_categories: bool) -> Ranges | None:
    """Return the file's ranges, or None if its format must be read from the start; rewinds it."""
    start = file.read(SIGNATURE_BYTES)
    file.seek(0)
    if is_packed(start) or find_utf16(start):
        return None
    form, _ = detect_format(read_blocks(file))
    file.seek(0)
    if form.container != "lines" or form.dialect is None:
        return None
    text_start = len(UTF8_BOM) if start.startswith(UTF8_BOM) else 0
    return Ranges(file.fileno(), text_start, size, form.dialect, RANGE_BYTES, has_categories)
