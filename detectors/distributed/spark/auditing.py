"""The audit of a Spark frame, classic or through Spark Connect, where its rows are.

1. Rows are read, checked and cut into slices by their group; summaries come back.
2. The slices of a part meet in a partition, where its calls are priced and counted.
3. Each part is audited with the facts that follow from all counts.

What the first two return is kept by Spark for the next, as it has room. Lost executors cost their
parts only: these follow again from the rows.
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from heapq import heapify, heapreplace
from itertools import count
from typing import Any, Final

import msgspec
import polars as pl
import pyarrow

from detectors.contract import InvalidRow, InvalidRows
from detectors.distributed.merging import merge
from detectors.distributed.spark import tasks
from detectors.distributed.spark.running import Jobs
from detectors.distributed.spark.tasks import (
    SLICES,
    Opening,
    Setting,
    SparkSummary,
    find_versions,
    join_pieces,
)
from detectors.distributed.tasks import load
from detectors.errors import DetectorError, SourceChangedError
from detectors.frames.parts import CheckedCalls, InMemory, columns_in_order, count_parts
from detectors.frames.sources import checked_calls
from detectors.frames.spark import is_remote, use_own_python
from detectors.frames.tables import check_columns
from detectors.frames.usage_log import CALLS, FIRST_INVALID
from detectors.prices.book import PriceBook
from detectors.prices.grid import Grid
from detectors.prices.table import Cells, add_pairs
from detectors.report import check_validity
from detectors.report.counting.counts import Counts
from detectors.report.part import AuditFacts, Job, PartResult, find, open_part
from detectors.report.pipeline import Audited, audit_logs
from detectors.report.result.calls import FlaggedFrames, Reopen
from detectors.report.result.document import Report
from detectors.rules import Thresholds

# Executors have less memory than one machine, and many cores.
PART_CALLS: Final = 500_000
_STEPS: Final = 3
# What Spark expects a frame to take that is audited by the driver. Of Parquet, it knows the
# compressed size: 300,000 to 2,000,000 calls.
GATHERED_BYTES: Final = 16 << 20
_TOO_LARGE: Final = re.compile("maxResultSize|OutOfMemoryError")
Progress = Callable[[int, int], None]
_SEED: Final = 42
_MASK: Final = 0xFFFFFFFF


def gather(frame: Any, progress: Progress | None) -> pyarrow.Table | None:
    """Return the rows of a small frame: one machine audits them sooner than several.

    None if Spark expects them to be large or can't know, or if the driver has no room for them.
    """
    check_columns(frame.columns)
    expected = GATHERED_BYTES + 1
    if not is_remote(frame):
        with suppress(Exception):  # some clusters of several users hide Java
            # The estimate by which Spark chooses its joins; it doesn't read the rows.
            expected = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    if expected > GATHERED_BYTES:
        return None
    use_own_python(frame.sparkSession)
    try:
        return Jobs(frame.sparkSession, 2, progress).collect(frame, "read the rows")
    except Exception as error:  # PySpark's, or Java's
        if not _TOO_LARGE.search(f"{error} {error.__cause__}"):
            raise
        return None


def audit(
    frame: Any,
    *,
    prices: PriceBook | None = None,
    thresholds: Thresholds | None = None,
    keep_calls: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Audit the rows of a frame; `detectors.audit` describes the parameters."""
    check_columns(frame.columns)
    thresholds, book = thresholds or Thresholds(), prices or PriceBook()
    with opened(frame, Setting(versions=find_versions()), progress) as rows:
        log = rows.log()
        check_validity(log, thresholds)
        return rows.audit(log, book, thresholds, keep_calls=keep_calls).reports[0]


@contextmanager
def opened(frame: Any, setting: Setting, progress: Progress | None) -> Iterator["SparkRows"]:
    """Yield the rows of a frame, and free what Spark keeps of them at the end."""
    rows = SparkRows(frame, setting, progress)
    try:
        yield rows
    finally:
        rows.close()


class SparkRows:
    """The rows of a frame, read in its partitions, and what follows from them."""

    def __init__(self, frame: Any, setting: Setting, progress: Progress | None) -> None:
        use_own_python(frame.sparkSession)
        self._frame, self._setting = frame, setting
        self._jobs = Jobs(frame.sparkSession, _STEPS, progress)
        self._kept = list[Any]()
        self._read = self._keep(in_arrow(frame, tasks.read_rows, setting))
        found = self._collect(self._read, tasks.SUMMARY, "read and check the rows")
        self.summaries = [load(content, SparkSummary) for content in found.values()]

    def _keep(self, frame: Any) -> Any:
        """Keep what a step returns for the next ones, where Spark can; else it is found again."""
        with suppress(Exception):  # serverless Databricks keeps nothing
            frame = frame.persist()
            self._kept.append(frame)
        return frame

    def close(self) -> None:
        """Free what Spark keeps."""
        while self._kept:
            with suppress(Exception):
                self._kept.pop().unpersist()

    def _collect(self, frame: Any, kind: str, description: str) -> dict[int, bytes]:
        """Run a job; return its results of a kind by part."""
        wanted = frame.where(f"kind in ('{kind}', '{tasks.ERROR}')")
        batches = self._jobs.collect(wanted, description).to_batches()
        for content in join_pieces(batches, tasks.ERROR).values():
            raise load(content, DetectorError)
        return join_pieces(batches, kind)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.summaries)

    @property
    def valid(self) -> int:
        return self._sizes.total()

    @property
    def _sizes(self) -> Counter[int]:
        sizes = Counter[int]()
        for each in self.summaries:
            sizes.update(each.sizes)
        return sizes

    def log(self) -> CheckedCalls:
        """Return the counts of rows; invalid ones are named by their position in the frame."""
        reasons, first, before = Counter[str](), list[InvalidRow](), 0
        for each in self.summaries:
            reasons.update(each.reasons)
            first += [InvalidRow(before + row.line, row.reason) for row in each.invalid]
            before += each.rows
        invalid = InvalidRows(
            count=reasons.total(),
            reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
            first=tuple(first[:FIRST_INVALID]),
        )
        return CheckedCalls(
            InMemory([checked_calls(CALLS.to_frame()).collect()]), self.rows, invalid
        )

    def audit(
        self, log: CheckedCalls, book: PriceBook, thresholds: Thresholds, *, keep_calls: bool
    ) -> Audited:
        """Audit the calls; the report's own come from the frame again."""
        sizes = self._sizes
        if not sizes:
            return audit_logs([log], log.calls, book, thresholds, keep_calls=False)
        known = set[str]().union(*(each.names for each in self.summaries))
        names = columns_in_order(known)
        parts = count_parts(sizes.total(), PART_CALLS)
        parts = min(parts, len(sizes))
        slices, keys = find_keys(sizes, parts)
        key = f"element_at(array({', '.join(map(str, keys))}), part + 1)"
        placed = self._read.where(f"kind = '{tasks.SLICE}'").selectExpr("*", f"{key} as place")
        placed = placed.repartition(parts, "place").drop("place")
        pairs = add_pairs(pair for each in self.summaries for pair in each.pairs)

        def find_positions(grid: Grid, keys: Sequence[str]) -> pl.DataFrame:
            listed = in_arrow(placed, tasks.list_positions, (grid, tuple(keys), tuple(names)))
            what = "find the times and lengths at which prices change"
            found = self._collect(listed, tasks.RESULT, what)
            return pl.concat([load(each, pl.DataFrame) for each in found.values()]).unique()

        def audit_parts(facts: AuditFacts) -> list[PartResult]:
            wanted = priced.where(f"kind = '{tasks.PRICED}'")
            audited = in_arrow(wanted, tasks.audit_priced, facts)
            results = self._collect(audited, tasks.RESULT, "audit the calls")
            if list(results) != list(found):
                raise SourceChangedError
            return [load(content, PartResult) for content in results.values()]

        def find_reopen(facts: AuditFacts) -> Reopen:
            return partial(_open_again, self._frame, self._setting, slices, names, job, facts)

        job = Job(
            cells=Cells.found(pairs, names, book, find_positions),
            thresholds=thresholds,
            has_each_call_once=log.is_account,
        )
        priced = self._keep(in_arrow(placed, tasks.open_slices, Opening(job, names)))
        found = self._collect(priced, tasks.COUNTS, "price and count the calls")
        counted: list[Counts] = [load(content, dict) for content in found.values()]
        reopen = find_reopen if keep_calls else None
        return merge(log, job, book, counted, audit_parts, reopen)


def in_arrow(frame: Any, function: Any, setting: object) -> Any:
    """Return what a task of `tasks` makes of the rows of a frame."""
    with warnings.catch_warnings():
        # PySpark checks pandas, which only its other functions use.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return frame.mapInArrow(tasks.task(function, setting), tasks.ROW)


def _open_again(
    frame: Any,
    setting: Setting,
    slices: Sequence[frozenset[int]],
    names: tuple[str, ...],
    job: Job,
    facts: AuditFacts,
    number: int,
) -> FlaggedFrames:
    """Read the calls of a part again, here, and find in them what the audit has found."""
    own = msgspec.structs.replace(setting, only=slices[number])
    jobs = Jobs(frame.sparkSession, 1, None)
    slices_of = in_arrow(frame, tasks.read_rows, own).where(f"kind = '{tasks.SLICE}'")
    found = jobs.collect(slices_of.select("content"), "read the calls of a finding")
    contents = found.column(0).to_pylist()
    if not contents:
        raise SourceChangedError
    calls = [tasks.read_slices(contents, names).lazy()]
    priced = open_part(calls, job, count=False).priced
    return find(priced.arrange(facts.windows), facts.rules)


def find_keys(sizes: Mapping[int, int], parts: int) -> tuple[list[frozenset[int]], list[int]]:
    """Return the slices of each part, and for each slice the number to partition by.

    The largest slices are placed first, each where the fewest calls are.
    """
    places = [(0, part) for part in range(parts)]
    heapify(places)
    part_of = {}
    for number in sorted(sizes, key=lambda each: (-sizes[each], each)):
        calls, part = places[0]
        part_of[number] = part
        heapreplace(places, (calls + sizes[number], part))
    found: dict[int, int] = {}  # a number for each partition whose hash leads to it
    for number in count():
        if len(found) == parts:
            break
        found.setdefault(_hash(number) % parts, number)
    numbers = [found[part] for part in range(parts)]
    own = [frozenset(n for n, part in part_of.items() if part == each) for each in range(parts)]
    return own, [numbers[part_of.get(number, 0)] for number in range(SLICES)]


def _hash(number: int) -> int:
    """Return Spark's hash of an integer of 32 bits, which is Murmur3, as a signed number."""
    mixed = number * 0xCC9E2D51 & _MASK
    mixed = _rotate(mixed, 15) * 0x1B873593 & _MASK
    found = (_rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    found ^= 4
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK
