"""The calls of a log in parts: in memory where they fit, else in files of a scratch folder.

All calls of a group, which is a route, a provider and a model, are in one part.
"""

import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol, Self
from zlib import crc32

import polars as pl

from detectors.contract import InvalidRows
from detectors.engine import Calls, categorize, collect, with_equal_types, with_texts
from detectors.engine.levels import LEVEL_COLUMNS
from detectors.engine.lookup import row_finder
from detectors.errors import GroupTooLargeError, ScratchFullError, find_errno
from detectors.formats.columns import REPORTED, present_columns
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, Counted, ReadRows
from detectors.threads import in_turn

# Calls of a part on disk and in memory, where two are audited at once, and those up to which all of
# them stay in memory, as one part or as several.
PART_CALLS: Final = 2_000_000
MEMORY_PART_CALLS: Final = 1_250_000
ONE_PART_CALLS: Final = 4_000_000
MEMORY_CALLS: Final = 12_000_000
# What the audit of a part takes of memory.
BYTES_PER_CALL: Final = 210
_FRAMES_AT_ONCE: Final = 2
_BATCH_CALLS: Final = 2_000_000  # that are written together
_GROUP: Final = ("route_label", "provider", "model")
_ROUTE: Final = (
    pl.when(pl.col("tag") != "").then(pl.col("tag")).otherwise(pl.col("endpoint")).alias(_GROUP[0])
)
# A part has the groups of some buckets; there are as many parts at most.
BUCKETS: Final = 1 << 10
_SHIFT: Final = 22  # of a checksum of 32 bits
_BUCKET: Final = "bucket"
ROW_GROUP: Final = 1 << 16  # calls: a part reads a few of a file's row groups
_PREFIX: Final = "tallystick-scratch-"
_LOCK: Final = "in-use"
# Of a source whose size is unknown, so many times the calls may come that were read already.
_TIMES_MORE: Final = 10


class Share(Protocol):
    """The buckets whose groups are in a part."""

    def has(self, buckets: pl.Series) -> pl.Series:
        """Check for each of these buckets whether it belongs to the part."""


class PartNumber(NamedTuple):
    """One of so many parts, which have as many buckets each, in a row."""

    number: int
    parts: int

    @property
    def buckets(self) -> tuple[int, int]:
        """Return the first bucket, and the one after the last."""
        return BUCKETS * self.number // self.parts, BUCKETS * (self.number + 1) // self.parts

    def has(self, buckets: pl.Series) -> pl.Series:
        first, end = self.buckets
        return buckets.is_between(first, end, closed="left")


class EvenPart(NamedTuple):
    """One of some parts that have about as many calls each; `part_of` has the part of a bucket."""

    number: int
    part_of: Sequence[int]

    def has(self, buckets: pl.Series) -> pl.Series:
        return pl.Series(self.part_of, dtype=pl.UInt16)[buckets] == self.number


class Parts(Protocol):
    """The calls of an audit, each group in one part."""

    @property
    def count(self) -> int:
        """Return the number of parts."""

    @property
    def in_memory(self) -> bool:
        """Check whether a part can be taken once only, because it is freed then."""

    def scan(self) -> Calls:
        """Return all calls, of which a query reads what it needs."""

    def share(self, number: int) -> Share:
        """Return the buckets of a part that was taken."""

    def take(self, number: int) -> list[Calls]:
        """Return the calls of a part in a list, which nothing else refers to."""

    def close(self) -> None:
        """Free what holds the calls."""


@dataclass(frozen=True, slots=True)
class CheckedCalls(ReadRows):
    """The valid calls of a log, in parts, and its invalid rows."""

    calls: Parts
    rows: int
    invalid: InvalidRows
    least_days: int = 0
    is_account: bool = False
    counted: Counted | None = None
    future_calls: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


class InMemory:
    """Calls in memory, in a few parts if they are many."""

    in_memory = True

    def __init__(self, frames: Sequence[pl.DataFrame], *, is_one_part: bool = False) -> None:
        self._frames = alike(frames)
        rows = sum(frame.height for frame in self._frames)
        is_one_part = is_one_part or rows <= ONE_PART_CALLS
        # An even number, because the last of an odd one would be audited alone.
        self.count = 1 if is_one_part else 2 * count_parts(rows, 2 * MEMORY_PART_CALLS)
        self._part_of: Sequence[int] = [0] * BUCKETS
        self._parts: list[list[pl.DataFrame]] = [[] for _ in range(self.count)]

    def scan(self) -> Calls:
        return pl.concat([frame.lazy() for frame in self._frames])

    def share(self, number: int) -> EvenPart:
        return EvenPart(number, self._part_of)

    def take(self, number: int) -> list[Calls]:
        if self._frames:
            self._divide_all()
        calls = pl.concat(self._parts[number])
        self._parts[number].clear()
        return [calls.lazy()]

    def _divide_all(self) -> None:
        if self.count == 1:
            self._parts[0], self._frames = self._frames, []
            return
        buckets = list(in_turn(number_buckets, self._frames, _FRAMES_AT_ONCE))
        calls = pl.concat(buckets, rechunk=False).value_counts(name="calls").rows()
        self._part_of = _spread(dict(calls), self.count)
        # Each frame is freed once its calls are in their parts.
        numbered = ((self._frames.pop(0), buckets.pop(0)) for _ in range(len(buckets)))
        for divided in in_turn(self._divide, numbered, _FRAMES_AT_ONCE):
            for part, own in zip(self._parts, divided, strict=True):
                part.append(own)

    def _divide(self, numbered: tuple[pl.DataFrame, pl.Series]) -> list[pl.DataFrame]:
        """Return the calls of each part."""
        frame, buckets = numbered
        owns = (self.share(number).has(buckets) for number in range(self.count))
        # In one piece, because each step takes longer with many; the whole part would take twice
        # the memory.
        return [frame.filter(is_own).rechunk() for is_own in owns]

    def close(self) -> None:
        """Free the calls."""
        self._frames.clear()
        self._parts.clear()


def number_buckets(calls: pl.DataFrame) -> pl.Series:
    """Return the bucket of each call, which follows from its group alone.

    The checksum of a group is the same on every machine and in every release of Polars.
    """
    labels = collect(calls.lazy().select(_ROUTE, *_GROUP[1:]))
    groups = collect(labels.lazy().unique())
    texts = groups.cast(pl.String).iter_rows()
    sums = [crc32("\0".join(each).encode()) >> _SHIFT for each in texts]
    rows = row_finder(groups)(labels.to_struct())
    return pl.Series(_BUCKET, sums, pl.UInt16).gather(rows)


def _spread(calls: Mapping[int, int], parts: int) -> list[int]:
    """Return the part of each bucket with so many calls, so that the largest part is small.

    The largest bucket comes first, and each goes to the part that has the fewest calls so far.
    """
    part_of, sizes = [0] * BUCKETS, [0] * parts
    for bucket in sorted(calls, key=lambda bucket: (-calls[bucket], bucket)):
        part_of[bucket] = sizes.index(min(sizes))
        sizes[part_of[bucket]] += calls[bucket]
    return part_of


def sort_by_bucket(calls: pl.DataFrame) -> tuple[pl.DataFrame, list[int]]:
    """Sort calls by bucket, and return where each bucket begins and where the last one ends."""
    buckets = number_buckets(calls)
    numbered = buckets.to_frame().with_row_index("row")
    order = numbered.sort(_BUCKET, maintain_order=True)["row"]
    starts = buckets.gather(order).search_sorted(
        pl.int_range(BUCKETS + 1, dtype=pl.UInt16, eager=True), "left"
    )
    return calls.select(pl.all().gather(order)), starts.to_list()


class SortedFile(NamedTuple):
    """A Parquet file of calls in order of bucket, and where each bucket begins in it."""

    path: Path
    starts: Sequence[int]

    def rows_of(self, part: PartNumber) -> tuple[int, int]:
        """Return the first row of a part, and the number of its rows."""
        first, end = (self.starts[bucket] for bucket in part.buckets)
        return first, end - first


class Scratch:
    """Calls in files of a scratch folder, which are in order of bucket.

    The folder is removed when this is closed or garbage. After a kill, the next one to begin in the
    same place removes it.
    """

    in_memory = False

    def __init__(
        self, folder: str | os.PathLike[str] | None, rows: int, *, is_known: bool = True
    ) -> None:
        self.count = count_parts(rows)
        self._rows_expected = rows if is_known else None
        root = Path(folder or tempfile.gettempdir())
        root.mkdir(parents=True, exist_ok=True)
        remove_left(root)
        self.files: list[SortedFile] = []
        self._names: set[str] = set()
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        # The file is locked for as long as it is open: the lock of a killed process is free.
        new = self._folder / f"{_LOCK}.new"
        lock = new.open("wb")
        with suppress(OSError):
            _lock(lock)
        # Only from here on, others see the file.
        new.rename(self._folder / _LOCK)
        self._remove = weakref.finalize(self, _remove, self._folder, lock)

    def write(self, calls: pl.DataFrame) -> None:
        """Write calls to a file of their own."""
        self._names |= set(calls.columns)
        in_order, starts = sort_by_bucket(calls)
        file = self._folder / f"{len(self.files):05}.parquet"
        try:
            with_texts(in_order).write_parquet(
                file, compression="lz4", row_group_size=ROW_GROUP, statistics=False
            )
        except (OSError, pl.exceptions.PolarsError) as error:
            if find_errno(error) not in (errno.ENOSPC, errno.EDQUOT):
                raise
            free = shutil.disk_usage(self._folder).free
            raise ScratchFullError(str(self._folder.parent), None, free) from error
        self.files.append(SortedFile(file, starts))
        if len(self.files) == 1 and self._rows_expected is not None:
            left = max(self._rows_expected - calls.height, 0)
            needed = file.stat().st_size * left // max(calls.height, 1)
            free = shutil.disk_usage(self._folder).free
            if needed > free:
                raise ScratchFullError(str(self._folder.parent), needed, free)

    def drop(self, names: Sequence[str]) -> None:
        """Leave out columns in which no call has a value."""
        self._names -= {*names}

    def scan(self) -> Calls:
        return pl.concat(self.scan_files())

    def share(self, number: int) -> PartNumber:
        return PartNumber(number, self.count)

    def scan_files(self) -> list[Calls]:
        return [self._read(file) for file in self.files]

    def take(self, number: int) -> list[Calls]:
        return [take_part(self.slice_files(self.share(number)), self.scan())]

    def slice_files(self, part: PartNumber) -> list[tuple[Calls, int]]:
        """Return the calls of a part in each file, and how many they are."""
        rows = [(file, *file.rows_of(part)) for file in self.files]
        return [(self._read(file).slice(first, n), n) for file, first, n in rows if n]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns of the calls, which not all files have."""
        return columns_in_order(self._names)

    def _read(self, file: SortedFile) -> Calls:
        return scan_file(file.path, self.names)

    def close(self) -> None:
        """Remove the folder and what is in it."""
        self._remove()


def _remove(folder: Path, lock: IO[bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()


def scan_file(path: str | os.PathLike[str], names: Sequence[str]) -> Calls:
    """Return the calls of a scratch file with these columns, whether it has them or not."""
    schema = {name: _type_of(name) for name in names}
    scanned = pl.scan_parquet(
        os.fspath(path), schema=schema, missing_columns="insert", extra_columns="ignore"
    )
    absent = {name: _absent(name) for name in names}
    return scanned.with_columns(
        pl.col(name).fill_null(value) for name, value in absent.items() if value is not None
    )


def with_columns(calls: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return checked calls with these columns, whether they have them or not."""
    empty = pl.DataFrame(schema={name: _type_of(name) for name in names})
    return pl.concat(alike([calls, empty])).select(names)


def count_parts(rows: int, calls: int | None = None) -> int:
    """Return in how many parts of so many calls each these are audited."""
    return min(max(-(-rows // (calls or PART_CALLS)), 1), BUCKETS)


def take_part(slices: Sequence[tuple[Calls, int]], whole: Calls) -> Calls:
    """Return the calls of a part, which are in some files, with categories for repeated labels.

    A part without calls has the columns of the `whole`.

    Raises
    ------
    GroupTooLargeError
        They don't fit into memory.
    """
    needed, free = sum(rows for _, rows in slices) * BYTES_PER_CALL, _free_memory()
    if needed > free:
        labels = pl.concat([each.select(_ROUTE, *_GROUP[1:]) for each, _ in slices])
        counted = labels.group_by(_GROUP).len().sort("len").last()
        route, provider, model, count = counted.collect().row(0)
        raise GroupTooLargeError(route, provider, model, count, needed, free)
    slices = slices or [(whole.head(0), 0)]
    frames = [categorize(calls.collect()) for calls, _ in slices]
    return pl.concat(alike(frames)).lazy()


def _type_of(name: str) -> pl.DataType:
    if name in LEVEL_COLUMNS:
        return pl.UInt64()
    return pl.Int64() if name == "at_us" else (CALLS | OPTIONAL_CALLS)[name]


def columns_in_order(names: Collection[str]) -> tuple[str, ...]:
    """Return the names of columns of checked calls in their order."""
    known = ("at_us", *present_columns(names), *LEVEL_COLUMNS, "log")
    return tuple(name for name in known if name in names)


def _absent(name: str) -> Any:
    """Return the value of a column where no call has one."""
    if name in ("at_us", "latency_ms", REPORTED):
        return None
    return 0 if _type_of(name).is_numeric() else ""


def _free_memory() -> int:
    """Return the bytes of memory that programs can still use."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _lock(file: IO[bytes]) -> None:
    """Lock a file; raise `OSError` if another process has locked it.

    Without locks of Unix, nobody knows whether a folder is in use, so that none is removed.
    """
    try:
        import fcntl
    except ImportError:
        raise OSError(errno.ENOLCK, "no locks") from None
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_left(root: Path) -> None:
    """Remove the folders of audits that were killed."""
    for folder in root.glob(f"{_PREFIX}*"):
        with suppress(OSError), (folder / _LOCK).open("rb") as file:
            _lock(file)
            shutil.rmtree(folder, ignore_errors=True)


class Collector:
    """Takes checked calls as they are read, and puts them to disk when they become too many.

    `count` returns how many rows there are, where that is known without reading them. With
    `in_files`, all calls are put to disk, for other processes to read.
    """

    def __init__(
        self,
        scratch: str | os.PathLike[str] | None = None,
        count: Callable[[], int] | None = None,
        only: Share | None = None,
        *,
        in_files: bool = False,
    ) -> None:
        self._folder, self._count, self._only = scratch, count, only
        self._in_files, self._read_share = in_files, 0.0
        self._frames: list[pl.DataFrame] = []
        self._rows, self._waiting = 0, 0
        self._scratch: Scratch | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Remove what was put to disk if reading has failed."""
        if kind is not None and self._scratch is not None:
            self._scratch.close()

    def watch(self, progress: Callable[[int, int], None] | None) -> Callable[[int, int], None]:
        """Return a function that learns how much of a file was read, and passes it on."""

        def learn(done: int, size: int) -> None:
            self._read_share = done / size if size else 1.0
            if progress is not None:
                progress(done, size)

        return learn

    def add(self, calls: pl.DataFrame) -> None:
        if self._only is not None:
            self._frames.append(calls.filter(self._only.has(number_buckets(calls))))
            return
        self._frames.append(calls)
        self._rows += calls.height
        self._waiting += calls.height
        if (self._in_files or self._rows > MEMORY_CALLS) and self._waiting >= _BATCH_CALLS:
            self._spill()

    def _spill(self) -> None:
        if self._scratch is None:
            expected = self._rows * _TIMES_MORE
            is_known = self._count is not None or bool(self._read_share)
            if self._count is not None:
                expected = self._count()
            elif self._read_share:
                expected = int(self._rows / self._read_share)
            self._scratch = Scratch(self._folder, expected, is_known=is_known)
        batch: list[pl.DataFrame] = []
        while self._frames:
            batch.append(self._frames.pop())
            if sum(each.height for each in batch) >= _BATCH_CALLS or not self._frames:
                self._scratch.write(pl.concat(alike(batch)))
                batch.clear()
        self._waiting = 0

    def finish(self, unused: Sequence[str] = ()) -> Parts:
        """Return the calls without columns that no call has a value in."""
        if self._scratch is not None or (self._in_files and self._rows):
            self._spill()
        if self._scratch is not None:
            self._scratch.drop(unused)
            return self._scratch
        frames = [frame.drop(unused, strict=False) for frame in self._frames]
        return InMemory(frames, is_one_part=self._only is not None)


def alike(frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Give frames of checked calls the columns and types of all; there is at least one frame."""
    given = {name for frame in frames for name in frame.columns} or {"at_us", *CALLS} - {"ts"}
    names = columns_in_order(given)
    complete = [
        frame.with_columns(
            pl.lit(_absent(name), _type_of(name)).alias(name)
            for name in names
            if name not in frame.columns
        ).select(names)
        for frame in frames or [pl.DataFrame(schema={"at_us": pl.Int64})]
    ]
    return with_equal_types(complete)
