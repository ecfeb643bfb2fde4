"""The owner's side of the supervising process."""

import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

from service.operations.local.processes.program import Program, Status

_MODULE = "service.operations.local.processes.supervisor"


class SupervisorError(Exception):
    """The supervisor process exited, or could not carry out an order."""


class Supervisor:
    """Start and stop programs through a separate process that ends with this process.

    The supervisor process holds the file descriptors `kept_open` until it has stopped every
    program, for example the lock of the data folder. The methods are thread-safe.
    """

    def __init__(self, log_file: Path, kept_open: tuple[int, ...] = ()) -> None:
        ours, theirs = socket.socketpair()
        with log_file.open("ab") as log, theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                # -P: never import a folder named `service` in the current directory.
                [sys.executable, "-P", "-m", _MODULE, str(log_file)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=kept_open,
                start_new_session=True,
            )
        self._orders = Connection(ours.detach())
        self._turn = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def start(self, program: Program) -> None:
        self._order("start", program)

    def stop(self, name: str, signal: int | None = None) -> None:
        """Stop one program; `signal` overrides its stop signal."""
        self._order("stop", name, signal)

    def programs(self) -> dict[str, Status]:
        return self._order("ask")

    def close(self) -> None:
        """Stop every program in order and wait until all have exited."""
        with self._turn:
            self._orders.close()
            self._process.wait()

    def _order(self, *order: object) -> dict[str, Status]:
        """Return the state of every program after the order."""
        with self._turn:
            try:
                self._orders.send(order)
                answer: dict[str, Status] | str = self._orders.recv()
            except (OSError, EOFError) as error:
                raise SupervisorError("the supervisor process has exited") from error
        if isinstance(answer, str):
            raise SupervisorError(answer)
        return answer
