"""The calls of a window that don't fit into memory, read from the account's files in parts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import polars as pl

from detectors.engine import Calls
from detectors.formats.columns import HASHES, REPORTED, empty_value
from detectors.frames.parts import (
    PART_CALLS,
    PartNumber,
    Scratch,
    SortedFile,
    count_parts,
    take_part,
)
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS
from detectors.report.account.call_files import read_starts
from detectors.report.account.file_counts import FileCounts

_AT_US: Final = pl.col("ts").dt.timestamp("us").alias("at_us")


class WindowOfFile(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a stored file that are in a window.

    `optional` are the optional columns that all files get. `first` and `last` are the times of the
    calls up to now, of which there are `calls`, beside `future_calls`. Calls up to `after` are no
    part of the window.
    """

    path: Path
    optional: tuple[str, ...]
    until: datetime
    first: datetime
    last: datetime
    calls: int
    future_calls: int
    after: datetime | None = None

    @property
    def is_whole(self) -> bool:
        return self.after is None and not self.future_calls

    def count(self) -> int:
        """Return how many calls of the file are in the window."""
        if self.after is None:
            return self.calls
        return int(self.read().select(pl.len()).collect().item())

    def read(self) -> Calls:
        """Return the calls of the window as they are stored."""
        return self.cut(scan_stored(self.path, self.optional))

    def cut(self, calls: Calls) -> Calls:
        """Keep the calls of the window."""
        if self.future_calls:
            calls = calls.filter(pl.col("ts") <= self.until)
        return calls if self.after is None else calls.filter(pl.col("ts") > self.after)


def measure_file(path: Path, optional: tuple[str, ...], until: datetime) -> WindowOfFile | None:
    """Return a file's calls up to now; None if there are none."""
    ts = pl.col("ts")
    past = ts.filter(ts <= until)
    first, last, calls, future_calls = (
        scan_stored(path, optional)
        .select(
            past.min().alias("first"),
            past.max().alias("last"),
            past.len().alias("calls"),
            (ts > until).sum().alias("future_calls"),
        )
        .collect()
        .row(0)
    )
    if not calls and not future_calls:
        return None
    return WindowOfFile(
        path=path,
        optional=optional,
        until=until,
        first=first or until,
        last=last or datetime.min.replace(tzinfo=until.tzinfo),
        calls=calls,
        future_calls=future_calls,
    )


def scan_stored(path: Path, optional: Iterable[str]) -> Calls:
    """Return the calls of a file with the columns that all files get."""
    names = [*optional]
    schema = {**CALLS, **{name: OPTIONAL_CALLS[name] for name in names}}
    if HASHES in names:
        schema[HASHES] = pl.Binary()
    scanned = pl.scan_parquet(path, schema=schema, missing_columns="insert", extra_columns="ignore")
    if HASHES in names:
        scanned = scanned.with_columns(pl.col(HASHES).bin.encode("hex"))
    return scanned.with_columns(
        pl.col(name).fill_null(empty_value(name)) for name in names if name != REPORTED
    )


def cut_files(files: Sequence[WindowOfFile], span: timedelta) -> list[WindowOfFile]:
    """Keep the calls of the time span that ends with the newest call."""
    since = max(file.last for file in files) - span
    return [
        file if file.first > since else msgspec.structs.replace(file, after=since)
        for file in files
        if file.last > since
    ]


def count_files(files: Sequence[WindowOfFile]) -> FileCounts:
    """Add up the counts of whole files, and count the calls of others, one file at a time.

    Seconds with a call are counted by day, so the days that files share are counted together.
    """
    counted = [
        (FileCounts.read(file.path) if file.is_whole else None)
        or FileCounts.of(file.read().collect())
        for file in files
    ]
    days = Counter(day for each in counted for day in each.days["day"])
    shared = [day for day, number in days.items() if number > 1]
    if not shared:
        return FileCounts.add(counted)
    of_days = pl.col("ts").dt.epoch("d").is_in(shared)
    again = [
        file.read().filter(of_days)
        for file, each in zip(files, counted, strict=True)
        if each.days["day"].is_in(shared).any()
    ]
    return FileCounts.add(counted, instead=FileCounts.of(pl.concat(again).collect()).days)


class StoredParts:
    """The calls of a window in parts.

    Files that are in order of bucket are read as they are; the calls of others are put in order in
    scratch files first.
    """

    in_memory = False

    def __init__(self, files: Sequence[WindowOfFile]) -> None:
        rows = sum(file.calls for file in files)
        self.count = count_parts(rows)
        self._in_order: list[tuple[WindowOfFile, SortedFile]] = []
        self._scratch = Scratch(None, rows)
        for file in files:
            if starts := read_starts(file.path):
                self._in_order.append((file, SortedFile(file.path, starts)))
                continue
            for begin in range(0, file.calls + file.future_calls, PART_CALLS):
                some = scan_stored(file.path, file.optional).slice(begin, PART_CALLS)
                self._scratch.write(_check(file.cut(some)).collect())

    def scan(self) -> Calls:
        stored = [_check(file.read()) for file, _ in self._in_order]
        return pl.concat([*stored, *self._scratch.scan_files()])

    def take(self, number: int) -> list[Calls]:
        part = PartNumber(number, self.count)
        slices = [
            (_check(file.cut(scan_stored(file.path, file.optional).slice(*rows))), rows[1])
            for file, in_order in self._in_order
            if (rows := in_order.rows_of(part))[1]
        ]
        return [take_part([*slices, *self._scratch.slice_files(part)])]

    def close(self) -> None:
        self._scratch.close()


def _check(calls: Calls) -> Calls:
    """Return the columns of checked calls."""
    return calls.select(_AT_US, pl.exclude("ts"))
