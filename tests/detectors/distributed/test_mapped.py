"""Audits in parts on any mapper: documents equal those of one process byte for byte."""

import pickle
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import detectors
from detectors import distributed
from detectors.distributed.__main__ import run_job
from detectors.errors import GroupTooLargeError
from tests.detectors.inputs.frames import as_polars
from tests.detectors.reference.traffic import draw_ladders, draw_log


def _far_away(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """What another machine does: everything is pickled both ways."""
    for task in tasks:
        theirs, own = pickle.loads(pickle.dumps((function, task)))
        yield pickle.loads(pickle.dumps(theirs(own)))


def test_any_number_of_parts_gives_the_same_document_and_calls(tmp_path: Path) -> None:
    log = draw_ladders(1)
    one = distributed.audit(log, map=_far_away, parts=1)
    assert one.to_json() == detectors.audit(log).to_json()
    frame = as_polars(draw_log(9))
    whole = detectors.audit(frame)
    found = distributed.audit(frame, map=_far_away, parts=5, scratch=tmp_path)
    assert found.to_json() == whole.to_json()
    assert not list(tmp_path.iterdir())
    for finding in found.findings[::6]:
        assert found.calls(finding).equals(whole.calls(finding))


def test_a_log_without_calls_is_audited() -> None:
    nothing = as_polars(draw_log(1)).clear()
    assert distributed.audit(nothing).to_json() == detectors.audit(nothing).to_json()


def test_spawned_processes_audit_and_forked_ones_are_refused() -> None:
    log = draw_ladders(0)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = distributed.audit(log, map=pool.map, parts=2)
    assert found.to_json() == detectors.audit(log).to_json()
    with (
        ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool,
        pytest.raises(distributed.ForkedProcessError, match="spawn"),
    ):
        distributed.audit(log, map=pool.map, parts=2)


def test_an_array_of_jobs_audits_over_a_shared_folder(tmp_path: Path) -> None:
    """The first job of each step is run as a scheduler would, the other in this process."""
    log = draw_ladders(1)

    def submit(command: Sequence[str], jobs: int) -> None:
        assert subprocess.run([*command, "0"], check=False).returncode == 0
        for number in range(1, jobs):
            run_job(command[-1], number)

    array = distributed.JobArray(tmp_path, submit)
    found = distributed.audit(log, map=array.map, scratch=tmp_path, parts=2)
    assert found.to_json() == detectors.audit(log).to_json()
    assert not list(tmp_path.iterdir())


def test_jobs_that_end_without_a_result_are_named(tmp_path: Path) -> None:
    def submit(command: Sequence[str], jobs: int) -> None:
        run_job(command[-1], 0)

    array = distributed.JobArray(tmp_path, submit)
    with pytest.raises(distributed.JobsLostError, match=r"without a result: 1, 2\."):
        distributed.audit(draw_log(0), map=array.map, parts=3)
    error = GroupTooLargeError("r", "p", "m", 3, 630, 1)
    with pytest.raises(GroupTooLargeError):
        list(array.map(_refuse, [error]))
    assert not list(tmp_path.iterdir())


def _refuse(error: Exception) -> None:
    raise error


def test_progress_counts_both_steps_and_may_end_the_audit() -> None:
    steps = list[tuple[int, int]]()
    log = draw_log(1)
    distributed.audit(log, map=_far_away, parts=2, progress=lambda *step: steps.append(step))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distributed.audit(log, map=_far_away, parts=2, progress=stop)


def test_errors_survive_the_way_back() -> None:
    error = pickle.loads(pickle.dumps(GroupTooLargeError("r", "p", "m", 3, 630, 1)))
    assert (type(error), error.route) == (GroupTooLargeError, "r")
    assert str(error) == str(GroupTooLargeError("r", "p", "m", 3, 630, 1))


def test_slices_are_placed_as_spark_partitions_them() -> None:
    from detectors.distributed.spark.auditing import _hash, find_keys

    # What `SELECT hash(0), hash(1), hash(42), hash(1000)` returns.
    assert [_hash(each) for each in (0, 1, 42, 1000)] == [
        933211791,
        -559580957,
        29417773,
        -14577491,
    ]
    sizes = {number: 1 + number % 7 for number in range(256)}
    slices, keys = find_keys(sizes, 7)
    for part, own in enumerate(slices):
        assert {_hash(keys[number]) % 7 for number in own} == {part}
    calls = [sum(sizes[number] for number in own) for own in slices]
    assert max(calls) - min(calls) <= 7
    assert pl.Series(sorted(each for own in slices for each in own)).equals(pl.Series(range(256)))
