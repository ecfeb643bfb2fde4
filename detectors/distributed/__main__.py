"""python -m detectors.distributed FOLDER NUMBER: run a job of a `JobArray`."""

import pickle
import sys
from pathlib import Path

from detectors.distributed.arrays import path_of
from detectors.errors import DetectorError


def run_job(folder: str, number: int) -> None:
    """Run the task of a job; an error of ours is its result."""
    own = Path(folder)
    content = path_of(own, number, "task").read_bytes()
    function, task = pickle.loads(content)  # noqa: S301 - from the audit that submitted the job
    try:
        result = function(task)
    except DetectorError as error:
        result = error
    unfinished = path_of(own, number, "part")
    unfinished.write_bytes(pickle.dumps(result))
    unfinished.rename(path_of(own, number, "result"))


if __name__ == "__main__":
    run_job(sys.argv[1], int(sys.argv[2]))
