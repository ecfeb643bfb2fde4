"""Parts as jobs of a batch system, such as an array of Slurm, over a folder that all jobs share."""

import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from detectors.errors import DetectorError

# Starts so many jobs, each of which runs the command with its own number from 0 as the last
# argument, and returns when all have ended.
Submit = Callable[[Sequence[str], int], object]


class JobsLostError(DetectorError):
    """Some jobs of an array have ended without a result."""

    def __init__(self, numbers: Sequence[int]) -> None:
        named = ", ".join(map(str, numbers[:10])) + (" and others" if numbers[10:] else "")
        super().__init__(f"These jobs ended without a result: {named}. Read their output.")


class JobArray:
    """Runs the parts of an audit as jobs: `distributed.audit(log, map=JobArray(...).map)`.

    Parameters
    ----------
    folder : path
        A folder that all jobs see at the same path. Nobody else may write to it: it holds pickles.
    submit : callable
        Receives a command as a list of texts, and a number of jobs. Each job has to run the
        command with its own number, from 0, as one more argument. Returns when all have ended.
    """

    def __init__(self, folder: str | PathLike[str], submit: Submit) -> None:
        self._folder, self._submit = folder, submit

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        """Yield the results in the tasks' order.

        Raises
        ------
        JobsLostError
            Some jobs ended without a result.
        """
        own = Path(tempfile.mkdtemp(prefix="tallystick-jobs-", dir=self._folder))
        try:
            count = 0
            for count, task in enumerate(tasks, 1):
                path_of(own, count - 1, "task").write_bytes(pickle.dumps((function, task)))
            self._submit([sys.executable, "-m", "detectors.distributed", str(own)], count)
            results = [path_of(own, number, "result") for number in range(count)]
            if lost := [number for number, path in enumerate(results) if not path.exists()]:
                raise JobsLostError(lost)
            for path in results:
                result = pickle.loads(path.read_bytes())  # noqa: S301 - from a job of ours
                if isinstance(result, DetectorError):
                    raise result
                yield result
        finally:
            shutil.rmtree(own, ignore_errors=True)


def path_of(folder: Path, number: int, kind: str) -> Path:
    """Return the file of a job's task or result."""
    return folder / f"{number}.{kind}"
