"""What runs elsewhere: pure functions of descriptions of parts that can be pickled.

Polars runs threads of its own, which a forked process doesn't have: it would wait for them forever.
"""

import os
import pickle
from typing import Final, TypeVar

import msgspec
import polars as pl

from detectors.engine import Calls
from detectors.errors import DetectorError
from detectors.frames.parts import scan_file, take_part, with_columns
from detectors.report.counting.counts import Counts
from detectors.report.part import AuditFacts, Job, PartResult, audit_part, open_part

T = TypeVar("T")
_FORKED: Final = list[bool]()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _FORKED.append(True))


class ForkedProcessError(DetectorError):
    """A process was forked from one that has loaded Polars, where Polars can't run."""

    def __init__(self) -> None:
        super().__init__(
            "Polars can't run in forked processes. Spawn them: ProcessPoolExecutor("
            'mp_context=multiprocessing.get_context("spawn")).'
        )


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the calls: rows of scratch files as path, first row and number of rows.

    `names` are the columns that all parts have. `job` and `facts` are pickled, because a forked
    process could not even unpickle their tables.
    """

    rows: tuple[tuple[str, int, int], ...]
    names: tuple[str, ...]
    job: bytes
    facts: bytes = b""

    def open(self) -> tuple[list[Calls], Job]:
        """Read the calls of the part."""
        check_forked()
        slices = [
            (scan_file(path, self.names).slice(first, rows), rows)
            for path, first, rows in self.rows
        ]
        whole = with_columns(pl.DataFrame(), self.names).lazy()
        return [take_part(slices, whole)], load(self.job, Job)


def check_forked() -> None:
    """Check that Polars can run in this process.

    Raises
    ------
    ForkedProcessError
        It would wait for threads that only the parent has.
    """
    if _FORKED:
        raise ForkedProcessError


def load(pickled: bytes, kind: type[T]) -> T:
    """Return an object that the audit itself has pickled."""
    found = pickle.loads(pickled)  # noqa: S301 - from processes of the same audit
    if not isinstance(found, kind):
        raise TypeError(f"expected a pickled {kind.__name__}")
    return found


def count_part(task: Task) -> Counts:
    """Return the counts of the calls of a part."""
    calls, job = task.open()
    return open_part(calls, job).counts


def find_part(task: Task) -> PartResult:
    """Return what the detectors find in a part."""
    calls, job = task.open()
    priced = [open_part(calls, job, count=False).priced]
    return audit_part(priced, load(task.facts, AuditFacts))[0]
