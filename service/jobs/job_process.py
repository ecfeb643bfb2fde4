"""A process that stays ready between jobs, so that a job need not import and prepare anything.

The worker sends one line per job through a pipe, and the process answers with one byte when the job
has ended. Each notices the end of the other, because then its pipe closes.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from service.core.logs import get_logger

_DONE, _LAST = b"d", b"l"
FAILED: Final = 1
# When a process is replaced.
MOST_JOBS: Final = 500
MOST_BYTES: Final = 512 * 1024 * 1024
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


_log = get_logger(__name__)

# Runs one job; returns False if the process should be replaced after it.
RunJob = Callable[[bytes], bool]


def has_worked_enough(jobs: int) -> bool:
    """Check whether this process has run many jobs, or used much memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
    return jobs >= MOST_JOBS or peak >= MOST_BYTES


class JobProcess:
    """A forked process in a process group of its own; the parent must be single-threaded."""

    def __init__(self, prepare: Callable[[], None], run: RunJob) -> None:
        self._prepare = prepare
        self._run = run
        self.pid = 0
        self._orders = self._answers = -1

    def start(self) -> None:
        """Fork the process unless it runs; it prepares itself while the worker waits for a job."""
        if self.pid:
            ended, _ = os.waitpid(self.pid, os.WNOHANG)
            if not ended:
                return
            self._forget()
        order_reader, order_writer = os.pipe()
        answer_reader, answer_writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(order_writer)
            os.close(answer_reader)
            status = FAILED
            try:  # run jobs until the worker closes its pipe; never return
                os.setpgrp()
                self._prepare()
                with os.fdopen(order_reader, "rb") as lines:
                    for line in lines:
                        goes_on = self._run(line.rstrip(b"\n"))
                        os.write(answer_writer, _DONE if goes_on else _LAST)
                        if not goes_on:
                            break
                status = os.EX_OK
            except Exception as error:  # above all of Redis, when the job's end can't be recorded
                _log.warning("job_process_ended", error_type=type(error).__name__)
            finally:
                os._exit(status)
        os.close(order_reader)
        os.close(answer_writer)
        self.pid, self._orders, self._answers = pid, order_writer, answer_reader

    def send(self, order: bytes) -> None:
        """Start a job, in a new process if the last one was killed while it waited."""
        self.start()
        with suppress(BrokenPipeError):  # `wait` then returns how the process ended
            os.write(self._orders, order + b"\n")

    def wait(self) -> int:
        """Return 0 once the job has ended, or the wait status of a process that ended instead."""
        answer = os.read(self._answers, 1)
        if answer == _DONE:
            return 0
        status = self._reap()
        return 0 if answer == _LAST else status or FAILED

    def stop(self) -> None:
        """End the process, which has no job."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._reap()

    def _reap(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        self._forget()
        return status

    def _forget(self) -> None:
        os.close(self._orders)
        os.close(self._answers)
        self.pid = 0
