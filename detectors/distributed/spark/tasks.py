"""What Spark's executors run: functions of Arrow batches, for `mapInArrow`.

Between them, Spark moves few rows with large contents: a slice of the calls of a batch, or a
pickled object in pieces. A slice has the groups of some buckets, so all calls of a group meet
where their slices do.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from importlib.metadata import version
from io import BytesIO
from typing import Final

import msgspec
import polars as pl
import pyarrow
from pyspark import TaskContext

from detectors.contract import InvalidRow
from detectors.distributed.tasks import load
from detectors.engine import categorize, with_texts
from detectors.errors import DetectorError
from detectors.formats.columns import REPORTED, empty_value
from detectors.frames.parts import BUCKETS, alike, sort_by_bucket, with_columns
from detectors.frames.sources import checked_calls
from detectors.frames.tables import check_table
from detectors.frames.usage_log import CALLS, FIRST_INVALID, OPTIONAL_CALLS, from_bytes
from detectors.prices.calls import PricedCalls, read_labels
from detectors.prices.table import add_pairs, find_pairs, find_positions
from detectors.report.account.traffic import add_slots, count_slots
from detectors.report.account.windows import UNUSED
from detectors.report.counting.billing import is_included
from detectors.report.part import AuditFacts, Job, audit_part, open_part

# The schema of all rows between the steps; `part` is a slice or a partition.
ROW: Final = "kind string, part int, piece int, content binary"
SLICES: Final = 256
SUMMARY: Final = "summary"
SLICE: Final = "slice"
COUNTS: Final = "counts"
PRICED: Final = "priced"
RESULT: Final = "result"
ERROR: Final = "error"
_CHUNK_ROWS: Final = 500_000  # that are checked together
_PIECE_BYTES: Final = 16 << 20  # far from what a message of Spark Connect or a row may have
_CODEC: Final = "zstd"
_PER_SLICE: Final = BUCKETS // SLICES
_ARROW: Final = pyarrow.schema(
    [("kind", pyarrow.string()), ("part", pyarrow.int32()), ("piece", pyarrow.int32())]
    + [("content", pyarrow.binary())]
)
Batches = Iterable[pyarrow.RecordBatch]
Rows = Iterator[pyarrow.RecordBatch]
_Row = tuple[str, int, int, bytes]


class VersionsDifferError(DetectorError):
    """The executors have other versions than the driver."""

    def __init__(self, theirs: str, ours: str) -> None:
        super().__init__(
            f"Spark's executors have {theirs}, and this program has {ours}. Install the same "
            "versions on both sides: results could differ."
        )


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What reading depends on: the driver's versions, and of an account's stored calls the times.

    `only` are the slices that are kept.
    """

    versions: str
    stored: tuple[datetime, datetime] | None = None
    only: frozenset[int] | None = None


class SparkSummary(msgspec.Struct, kw_only=True):
    """What was read of a partition beside its calls; `names` are the columns with a value.

    Rows of invalid calls count from 1 in the partition. `sizes` has the calls of each slice.
    """

    rows: int = 0
    invalid: list[InvalidRow] = []
    reasons: dict[str, int] = {}
    names: set[str] = set()
    sizes: dict[int, int] = {}
    pairs: list[pl.DataFrame] = []
    slots: list[pl.DataFrame] = []
    ends: list[tuple[int, int]] = []


def find_versions() -> str:
    """Return the versions that results may depend on."""
    return f"tallystick-server {version('tallystick-server')} and Polars {pl.__version__}"


def _own_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _batch(rows: Sequence[_Row]) -> pyarrow.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pyarrow.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _in_pieces(kind: str, part: int, content: object) -> Rows:
    """Compress the object: priced calls become a fifth, of which Spark makes several copies."""
    whole = pyarrow.compress(pickle.dumps(content, protocol=5), _CODEC, asbytes=True)
    for piece, start in enumerate(range(0, len(whole), _PIECE_BYTES)):
        yield _batch([(kind, part, piece, whole[start : start + _PIECE_BYTES])])


def join_pieces(batches: Batches, kind: str) -> dict[int, bytes]:
    """Return the pickled objects of this kind by part."""
    found: dict[int, dict[int, bytes]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            if row["kind"] == kind:
                found.setdefault(row["part"], {})[row["piece"]] = row["content"]
    joined = {}
    for part, own in sorted(found.items()):
        content = pyarrow.BufferReader(b"".join(own[number] for number in sorted(own)))
        with pyarrow.CompressedInputStream(content, _CODEC) as stream:
            joined[part] = bytes(stream.read())
    return joined


def _check_versions(ours: str) -> None:
    if ours != find_versions():
        raise VersionsDifferError(find_versions(), ours)


def report_versions(pickled: bytes, batches: Batches) -> Rows:
    """Return the versions of an executor for the only row."""
    _check_versions(load(pickled, str))
    if any(batch.num_rows for batch in batches):
        yield from _in_pieces(RESULT, 0, find_versions())


def read_rows(pickled: bytes, batches: Batches) -> Rows:
    """Check rows, and return them in slices, with a summary at the end."""
    setting = load(pickled, Setting)
    _check_versions(setting.versions)
    summary = SparkSummary()
    for number, chunk in enumerate(_in_chunks(batches)):
        if setting.stored is None:
            frames = list[pl.DataFrame]()
            checked, unused = check_table(chunk.lazy(), frames.append)
            for reason, rows in checked.invalid.reasons.items():
                summary.reasons[reason] = summary.reasons.get(reason, 0) + rows
            own = [InvalidRow(summary.rows + row.line, row.reason) for row in checked.invalid.first]
            summary.invalid = [*summary.invalid, *own][:FIRST_INVALID]
            read = pl.concat(alike(frames)).drop(unused)
        else:
            read = _cut(chunk, *setting.stored)
            metered = read.lazy().filter(~is_included(read.lazy())).collect()
            if not metered.is_empty():
                slots = with_texts(count_slots(metered.lazy()))
                summary.slots = [add_slots([*summary.slots, slots])]
                ends = (pl.col("at_us").min().alias("a"), pl.col("at_us").max().alias("b"))
                summary.ends.append(metered.select(ends).row(0))
        summary.rows += chunk.height
        if read.is_empty():
            continue
        if setting.only is None:
            summary.pairs = [add_pairs([*summary.pairs, find_pairs(read_labels(read.lazy()))])]
        # Join small rows: each batch costs Spark some time.
        waiting, size = list[_Row](), 0
        for row in _slice(read, number, summary, setting.only):
            waiting.append(row)
            size += len(row[3])
            if size >= _PIECE_BYTES:
                yield _batch(waiting)
                waiting, size = [], 0
        if waiting:
            yield _batch(waiting)
    yield from _in_pieces(SUMMARY, _own_number(), summary)


def _in_chunks(batches: Batches) -> Iterator[pl.DataFrame]:
    waiting, rows = list[pyarrow.RecordBatch](), 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _CHUNK_ROWS:
            yield _to_frame(waiting)
            waiting, rows = [], 0
    if rows:
        yield _to_frame(waiting)


def _to_frame(batches: Sequence[pyarrow.RecordBatch]) -> pl.DataFrame:
    return pl.DataFrame(pyarrow.Table.from_batches(batches))


def _cut(chunk: pl.DataFrame, after: datetime, until: datetime) -> pl.DataFrame:
    """Return the calls of an account's window as checked calls."""
    optional = [name for name in OPTIONAL_CALLS if name in chunk.columns and name not in UNUSED]
    types = pl.Schema({**CALLS, **{name: OPTIONAL_CALLS[name] for name in optional}})
    own = from_bytes(chunk.select(types.names())).cast(types)
    own = own.filter((pl.col("ts") > after) & (pl.col("ts") <= until))
    filled = own.with_columns(
        pl.col(name).fill_null(empty_value(name)) for name in optional if name != REPORTED
    )
    return checked_calls(categorize(filled)).collect()


def _slice(
    calls: pl.DataFrame, chunk: int, summary: SparkSummary, only: frozenset[int] | None
) -> Iterator[_Row]:
    summary.names |= set(calls.columns)
    in_order, starts = sort_by_bucket(calls)
    in_order = with_texts(in_order)
    for number in range(SLICES):
        first, end = (starts[_PER_SLICE * each] for each in (number, number + 1))
        if first == end or (only is not None and number not in only):
            continue
        summary.sizes[number] = summary.sizes.get(number, 0) + end - first
        content = BytesIO()
        in_order[first:end].write_ipc(content, compression="lz4")
        yield SLICE, number, chunk, content.getvalue()


def read_slices(contents: Iterable[bytes], names: Sequence[str]) -> pl.DataFrame:
    """Return the calls of some slices with these columns."""
    frames = [pl.read_ipc(content) for content in contents]
    return categorize(with_columns(pl.concat(alike(frames)), names))


def _contents(batches: Batches) -> Iterator[bytes]:
    for batch in batches:
        yield from batch.column(3).to_pylist()


class Opening(msgspec.Struct, frozen=True):
    """What opening a part depends on."""

    job: Job
    names: tuple[str, ...]


def open_slices(pickled: bytes, batches: Batches) -> Rows:
    """Price and count the calls of the slices in a partition, which is a part."""
    contents = list(_contents(batches))
    if not contents:
        return
    opening = load(pickled, Opening)
    calls = [read_slices(contents, opening.names).lazy()]
    del contents
    opened = open_part(calls, opening.job)
    yield from _in_pieces(COUNTS, _own_number(), opened.counts)
    yield from _in_pieces(PRICED, _own_number(), opened.priced)


def list_positions(pickled: bytes, batches: Batches) -> Rows:
    """Find the positions in the grid of prices of the slices in a partition."""
    grid, keys, names = pickle.loads(pickled)  # noqa: S301 - from the driver
    contents = list(_contents(batches))
    if contents:
        calls = read_labels(read_slices(contents, names).lazy())
        yield from _in_pieces(RESULT, _own_number(), with_texts(find_positions(calls, grid, keys)))


def audit_priced(pickled: bytes, batches: Batches) -> Rows:
    """Return what the detectors find in the priced parts of a partition."""
    parts = join_pieces(batches, PRICED)
    if not parts:
        return
    facts = load(pickled, AuditFacts)
    for number in list(parts):
        result, _ = audit_part([load(parts.pop(number), PricedCalls)], facts)
        yield from _in_pieces(RESULT, number, result)


def task(function: Callable[[bytes, Batches], Rows], setting: object) -> Callable[[Batches], Rows]:
    """Return a task for `mapInArrow`, which Spark sends to its executors."""
    return partial(_run, function, pickle.dumps(setting))


def _run(function: Callable[[bytes, Batches], Rows], setting: bytes, batches: Batches) -> Rows:
    """Return errors of ours as rows: Spark would try again, and hide them in a text."""
    try:
        yield from function(setting, batches)
    except DetectorError as error:
        yield from _in_pieces(ERROR, _own_number(), error)
