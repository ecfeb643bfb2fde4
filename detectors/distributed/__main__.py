"""python -m detectors.distributed FOLDER NUMBER: run a job of a `JobArray`."""

import sys

from detectors.distributed.arrays import run_job

if __name__ == "__main__":
    run_job(sys.argv[1], int(sys.argv[2]))
