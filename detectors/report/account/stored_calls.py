"""The calls of an account's files that are in a window of time, in memory or in parts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Self

import msgspec
import polars as pl

from detectors.contract import CallWindow
from detectors.engine import Calls, categorize
from detectors.formats.columns import HASHES, REPORTED, empty_value
from detectors.frames.parts import (
    MEMORY_CALLS,
    ONE_PART_CALLS,
    PART_CALLS,
    InMemory,
    PartNumber,
    Parts,
    Scratch,
    Share,
    SortedFile,
    count_parts,
    number_buckets,
    take_part,
)
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS
from detectors.report.account.call_files import read_starts
from detectors.report.account.file_counts import FileCounts
from detectors.report.account.traffic import add_slots

COUNTED_AT_ONCE: Final = 1_000_000
_SLOTS_AT_ONCE: Final = 1_000_000  # of 80 bytes
_AT_US: Final = pl.col("ts").dt.timestamp("us").alias("at_us")


class FileInWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a stored file that are in a window.

    The file has `rows`; `optional` are the optional columns that all files get. There are `calls`
    from the `first` to the `last`, after the moment `after`, beside `future_calls`, which are later
    than `until`. With `is_counted`, the counts in the file's metadata may be those of the window.
    """

    path: Path
    rows: int
    optional: tuple[str, ...]
    until: datetime
    first: datetime
    last: datetime
    calls: int
    future_calls: int
    is_counted: bool
    after: datetime | None = None

    def read(self, rows: tuple[int, int] | None = None) -> Calls:
        """Return the calls of the window, or those among some rows, as they are stored."""
        calls = scan_stored(self.path, self.optional)
        calls = calls if rows is None else calls.slice(*rows)
        if self.future_calls:
            calls = calls.filter(pl.col("ts") <= self.until)
        return calls if self.after is None else calls.filter(pl.col("ts") > self.after)

    def later(self, after: datetime) -> Self:
        """Keep the calls after this moment."""
        cut = msgspec.structs.replace(self, after=after, is_counted=False)
        return msgspec.structs.replace(cut, calls=int(cut.read().select(pl.len()).collect().item()))


def measure_file(path: Path, optional: tuple[str, ...], until: datetime) -> FileInWindow:
    """Find a file's calls up to now."""
    ts = pl.col("ts")
    past = ts.filter(ts <= until)
    ends = (past.min().alias("first"), past.max().alias("last"), past.len().alias("calls"))
    late = (ts > until).sum().alias("late")
    first, last, calls, late_calls = (
        scan_stored(path, optional).select(*ends, late).collect().row(0)
    )
    return FileInWindow(
        path=path,
        rows=calls + late_calls,
        optional=optional,
        until=until,
        first=first or until,
        last=last or until,
        calls=calls,
        future_calls=late_calls,
        is_counted=not late_calls,
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


def cut_files(files: Sequence[FileInWindow], window: CallWindow) -> list[FileInWindow]:
    """Keep the calls of the days that end with the newest call, in order of their files."""
    if not files:
        return []
    since = window.after(max(file.last for file in files))
    in_order = sorted(files, key=lambda file: (file.first, file.last))
    return [
        file if file.first > since else file.later(since) for file in in_order if file.last > since
    ]


def count_files(files: Sequence[FileInWindow]) -> FileCounts:
    """Add up the counts of whole files, and count the calls of the others.

    Seconds with a call are counted by day, so the days that files share are counted together. Slots
    are added up as they are read: those of 40,000 routes and 30 days would take 6 GB.
    """
    counted, slots = list[FileCounts](), list[pl.DataFrame]()
    for file in files:
        each = FileCounts.read(file.path) if file.is_counted else None
        each = each or FileCounts.of(
            file.read((begin, COUNTED_AT_ONCE)).collect()
            for begin in range(0, file.rows, COUNTED_AT_ONCE)
        )
        slots.append(each.slots)
        if sum(some.height for some in slots) > _SLOTS_AT_ONCE:
            slots = [add_slots(slots)]
        counted.append(msgspec.structs.replace(each, slots=each.slots.clear()))
    days = Counter(day for each in counted for day in each.days["day"])
    instead = None
    if shared := [day for day, number in days.items() if number > 1]:
        of_days = pl.col("ts").dt.epoch("d").is_in(shared)
        again = [
            file.read().filter(of_days)
            for file, each in zip(files, counted, strict=True)
            if each.days["day"].is_in(shared).any()
        ]
        instead = FileCounts.of(each.collect() for each in again).days
    return msgspec.structs.replace(FileCounts.add(counted, instead=instead), slots=add_slots(slots))


def parts_of(files: Sequence[FileInWindow]) -> Parts:
    """Return the calls of a window in memory, or in parts of the files where they are many."""
    rows = sum(file.calls for file in files)
    starts = [read_starts(file.path) for file in files] if rows > ONE_PART_CALLS else []
    if rows > MEMORY_CALLS or (starts and all(starts)):
        return StoredParts(files, starts, rows)
    return InMemory([categorize(_check(file.read()).collect()) for file in files])


def read_part(files: Sequence[FileInWindow], part: Share) -> InMemory:
    """Read the calls of one part again, after the audit has freed its parts."""
    frames = []
    for file in files:
        rows = None
        # A part that was in memory has buckets from all over a file.
        if isinstance(part, PartNumber) and (starts := read_starts(file.path)):
            rows = SortedFile(file.path, starts).rows_of(part)
        calls = _check(file.read(rows)).collect()
        frames.append(calls.filter(part.has(number_buckets(calls))) if rows is None else calls)
    return InMemory(frames, is_one_part=True)


class StoredParts:
    """The calls of a window in parts.

    Files that are in order of bucket are read as they are; the calls of others are put in order in
    scratch files first.
    """

    in_memory = False

    def __init__(
        self, files: Sequence[FileInWindow], starts: Sequence[Sequence[int] | None], rows: int
    ) -> None:
        self.count = count_parts(rows)
        self._in_order: list[tuple[FileInWindow, SortedFile]] = []
        self._scratch = Scratch(None, rows)
        try:
            for file, own in zip(files, starts, strict=True):
                if own:
                    self._in_order.append((file, SortedFile(file.path, own)))
                else:
                    for begin in range(0, file.rows, PART_CALLS):
                        self._scratch.write(_check(file.read((begin, PART_CALLS))).collect())
        except BaseException:
            self.close()
            raise

    def scan(self) -> Calls:
        stored = [_check(file.read()) for file, _ in self._in_order]
        return pl.concat([*stored, *self._scratch.scan_files()])

    def share(self, number: int) -> PartNumber:
        return PartNumber(number, self.count)

    def take(self, number: int) -> list[Calls]:
        part = self.share(number)
        slices = [
            (_check(file.read(rows)), rows[1])
            for file, in_order in self._in_order
            if (rows := in_order.rows_of(part))[1]
        ]
        return [take_part([*slices, *self._scratch.slice_files(part)], self.scan())]

    def close(self) -> None:
        self._scratch.close()


def _check(calls: Calls) -> Calls:
    """Return the columns of checked calls."""
    return calls.select(_AT_US, pl.exclude("ts"))
