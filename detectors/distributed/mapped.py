"""The audit of a log in parts, which a mapper of the caller runs on any machines."""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any, Final, cast

import msgspec

from detectors.distributed.merging import merge
from detectors.distributed.tasks import ForkedProcessError, Task, count_part, find_part
from detectors.formats.csv_logs.mapping import Mapped
from detectors.frames import Source, UsageLog, place, read
from detectors.frames.parts import PartNumber, Scratch, count_parts
from detectors.prices.book import PriceBook
from detectors.prices.calls import read_labels
from detectors.prices.table import Cells
from detectors.report import can_be_read_again, check_validity, reread
from detectors.report.part import AuditFacts, Job, PartResult
from detectors.report.pipeline import audit_logs, open_again
from detectors.report.result.calls import Reopen
from detectors.report.result.document import Report
from detectors.rules import Thresholds

# Calls a function with each task, anywhere, and returns the results in the tasks' order.
Map = Callable[[Callable[[Task], Any], Iterable[Task]], Iterable[Any]]
# Smaller than on one machine, so that each of its processors has some.
PART_CALLS: Final = 500_000


def audit(
    source: Source | UsageLog,
    *,
    map: Map | None = None,
    scratch: str | os.PathLike[str] | None = None,
    parts: int | None = None,
    mapping: Mapped | None = None,
    prices: PriceBook | None = None,
    thresholds: Thresholds | None = None,
    engine: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Audit a usage log in parts that other processes or machines audit.

    The source is read and checked here, and written to files of `scratch`. `map` runs a function
    with each part twice: for the counts, of which the whole is needed, and for the findings. The
    report equals that of `detectors.audit`.

    Parameters
    ----------
    source, mapping, prices, thresholds, engine
        As for `detectors.audit`. Rates are looked up here only, and sent with the parts.
    map : callable, optional
        What `map` of an executor of `concurrent.futures` is: it gets a function and an iterable of
        tasks, and returns the results in their order. Functions and tasks can be pickled. Its
        processes must be spawned, because Polars can't run in forked ones. By default, as many
        processes of this machine as it has processors.
    scratch : path, optional
        The folder for the parts, about 60 bytes for each call, which all processes can read; by
        default that for temporary files, which is for processes of this machine.
    parts : int, optional
        How many parts there are, at most 1,024; by default, each has about 500,000 calls.
    progress : callable of (int, int), optional
        Receives the number of steps that are done, and of all. What it raises ends the audit.

    Returns
    -------
    Report
        As of `detectors.audit`. `Report.calls` reads the source again.

    Raises
    ------
    ForkedProcessError
        A process of `map` was forked.
    TooFewValidRowsError, UnreadableLogError, ContractError, ScratchFullError
        As for `detectors.audit`.
    """
    # A pool that forks is refused: its processes may stop even before their first task.
    context = getattr(getattr(map, "__self__", None), "_mp_context", None)
    if context is not None and context.get_start_method() == "fork":
        raise ForkedProcessError
    thresholds, book = thresholds or Thresholds(), prices or PriceBook()
    if mapping is not None:
        source = read(source, mapping=mapping)
    log = place(source, engine, scratch=scratch, in_files=True)
    try:
        check_validity(log, thresholds)
        if not isinstance(log.calls, Scratch):  # a log without calls
            return audit_logs([log], log.calls, book, thresholds).reports[0]
        job = Job(cells=Cells.of(read_labels(log.calls.scan()), book), thresholds=thresholds)
        valid = log.rows - log.invalid.count
        count = parts or count_parts(valid, PART_CALLS)
        # The number of a part is its position, so parts without calls are tasks too.
        tasks, pickled = list[Task](), pickle.dumps(job)
        for number in range(count):
            part = PartNumber(number, count)
            rows = ((file, *file.rows_of(part)) for file in log.calls.files)
            own = tuple((os.fspath(file.path), first, n) for file, first, n in rows if n)
            tasks.append(Task(rows=own, names=log.calls.names, job=pickled))
        with _mapper(map) as run:
            results = _Results(run, tasks, progress)
            counted = results.count()

            def find_again(facts: AuditFacts) -> Reopen:
                shares = [PartNumber(number, count) for number in range(count)]
                return partial(open_again, partial(reread, source, engine), job, facts, shares)

            find_reopen = find_again if can_be_read_again(source) else None
            return merge(log, job, book, counted, results.find, find_reopen).reports[0]
    finally:
        log.calls.close()


class _Results:
    """Runs both steps of all parts, and reports which are done."""

    def __init__(
        self, run: Map, tasks: Sequence[Task], progress: Callable[[int, int], None] | None
    ) -> None:
        self._run, self._tasks, self._progress = run, tasks, progress
        self._done = 0

    def count(self) -> list[Any]:
        return self._collect(count_part, self._tasks)

    def find(self, facts: AuditFacts) -> list[PartResult]:
        pickled = pickle.dumps(facts)
        tasks = [msgspec.structs.replace(task, facts=pickled) for task in self._tasks]
        return cast("list[PartResult]", self._collect(find_part, tasks))

    def _collect(self, function: Callable[[Task], Any], tasks: Sequence[Task]) -> list[Any]:
        results = list[Any]()
        for result in self._run(function, tasks):
            results.append(result)
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, 2 * len(self._tasks))
        return results


@contextmanager
def _mapper(given: Map | None) -> Iterator[Map]:
    if given is not None:
        yield given
        return
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
