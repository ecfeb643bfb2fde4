"""The supervisor process, which reads orders from its stdin.

`python -P -m service.operations.local.processes.supervisor LOG_FILE`

It writes what the programs print to their log files. It exits with its owner, however that dies:
its socket closes or its parent changes. It must stay small and single-threaded, because it has to
outlive everything else.
"""

import itertools
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from service.operations.local.processes.child import START_ERRORS, Child
from service.operations.local.processes.orphans import adopt_orphans, kill_orphans, reap_orphans
from service.operations.local.processes.output import LogFile
from service.operations.local.processes.program import Status

POLL_SECONDS = 0.1
STOPPING_POLL_SECONDS = 0.02


class SupervisingProcess:
    """Run the programs that the owner orders, until the owner exits or closes its socket."""

    def __init__(self, orders: Connection, log: LogFile) -> None:
        self._orders = orders
        self._log = log
        self._owner = os.getppid()
        self._children: dict[str, Child] = {}
        self._ending = False

    def run(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._end)
        adopt_orphans()
        try:
            while not self._ending and os.getppid() == self._owner:
                self._read_orders()
                self._check_children()
                reap_orphans(self._own_pids())
        finally:
            self._stop_all()

    def _end(self, _signal: int, _frame: FrameType | None) -> None:
        self._ending = True

    def _pause(self, awaited: Sequence[int] = (), seconds: float = POLL_SECONDS) -> bool:
        """Save what the programs print; return True as soon as an awaited descriptor is ready."""
        outputs = {child.output.reader: child.output for child in self._children.values()}
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0:
            ready, _, _ = select.select([*awaited, *outputs], [], [], left)
            for descriptor in outputs.keys() & set(ready):
                outputs[descriptor].save()
            if set(awaited) & set(ready):
                return True
        return False

    def _pause_stopping(self) -> None:
        self._pause(seconds=STOPPING_POLL_SECONDS)

    def _read_orders(self) -> None:
        if not self._pause([self._orders.fileno()]):
            return
        try:
            self._orders.send(self._obey(self._orders.recv()))
        except (EOFError, OSError):
            self._ending = True

    def _obey(self, order: Any) -> dict[str, Status] | str:
        """Return the state of all programs, or why the order failed."""
        try:
            match order:
                case ("start", program):
                    if program.name not in self._children:
                        self._children[program.name] = Child(program)
                    self._children[program.name].start()
                case ("stop", name, stop_signal) if name in self._children:
                    self._children[name].signal_stop(stop_signal)
                    self._children[name].wait_stopped(self._pause_stopping)
                case ("stop", name, _):
                    return f"there is no program named {name}"
                case ("ask",):
                    self._check_children()
        except START_ERRORS as error:
            return str(error)
        return {name: child.status for name, child in self._children.items()}

    def _check_children(self) -> None:
        for child in self._children.values():
            if event := child.check():
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                self._log.write(f"{now} {event}")

    def _stop_all(self) -> None:
        ordered = sorted(self._children.values(), key=_stage, reverse=True)
        for _, children in itertools.groupby(ordered, key=_stage):
            stopping = list(children)
            for child in stopping:
                child.signal_stop()
            for child in stopping:
                child.wait_stopped(self._pause_stopping)
            # Orphans of a killed program must not keep using servers that are about to stop.
            kill_orphans(spared=self._own_pids())
        for child in self._children.values():
            child.output.save()
            child.output.finish()

    def _own_pids(self) -> frozenset[int]:
        return frozenset(child.status.pid or 0 for child in self._children.values())


def _stage(child: Child) -> int:
    return child.program.stage


if __name__ == "__main__":
    log = LogFile(Path(sys.argv[1]))
    SupervisingProcess(Connection(sys.stdin.fileno()), log).run()
