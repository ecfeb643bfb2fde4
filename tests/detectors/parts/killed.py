"""Audit a log in small parts, and kill this process at a step: `log scratch out step`."""

import os
import signal
import sys
from pathlib import Path

import polars as pl

import detectors
from detectors.frames import parts


def main(log: str, scratch: str, out: str, at: str) -> None:
    parts.PART_CALLS = parts.ONE_PART_CALLS = 200  # type: ignore[misc]
    parts.MEMORY_CALLS, parts._BATCH_CALLS = 1, 300  # type: ignore[misc]
    steps, write = iter(range(10_000)), parts.Scratch.write

    def step(*_: int) -> None:
        if next(steps) == int(at):
            os.kill(os.getpid(), signal.SIGKILL)

    def write_after_step(self: parts.Scratch, calls: pl.DataFrame) -> None:
        step()
        write(self, calls)

    parts.Scratch.write = write_after_step  # type: ignore[method-assign]
    detectors.audit(log, scratch=Path(scratch), progress=step).save(out)
    print(next(steps))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
