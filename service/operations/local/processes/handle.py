"""What the supervising process runs, and the owner's side of it."""

import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGTERM
from typing import NamedTuple


class OrdinaryUser(NamedTuple):
    """A user other than root, with the IDs of the user and of the group."""

    name: str
    user: int
    group: int


@dataclass(frozen=True, kw_only=True)
class Probe:
    """How to see from outside that a program works.

    The program answers `question` on its Unix `socket` and closes the connection. An answer with
    `not_ready` in it says that the program is still starting, which may take long.
    """

    socket: str
    question: bytes
    not_ready: bytes
    silent_seconds: float = 10.0
    not_ready_seconds: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """One process to keep running, and to start again with growing pauses."""

    name: str
    command: tuple[str, ...]
    folder: str
    log_file: str  # its output, in a file that is renamed when it is too long
    environment: dict[str, str]
    user: OrdinaryUser | None = None  # None is the user of the supervisor
    stop_signal: int = SIGTERM
    stop_seconds: float = 10.0
    # A killed predecessor may leave its process ID in these files, and the ID was reused since:
    # before every start, it is replaced by the supervisor's own.
    pid_files: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()  # open files of the supervisor process, to inherit
    orphans: str | None = None  # processes that outlive a killed one and keep it from starting
    stage: int = 0  # programs of a higher stage stop before those of a lower one
    probe: Probe | None = None  # one that fails it for too long is killed and started again
    longest_backoff_seconds: float = 5.0


class Status(NamedTuple):
    """The status of a program. `pid` is None while it is down; `crashes` counts its crashes."""

    pid: int | None
    crashes: int


class SupervisorError(Exception):
    """The supervisor process exited, or could not carry out an order."""


class Supervisor:
    """Start and stop programs through a separate process that ends with this process.

    The supervisor process holds the file descriptors `kept_open` until it has stopped every
    program, for example the lock of the data folder. The methods are thread-safe.
    """

    def __init__(self, log_file: Path, kept_open: tuple[int, ...] = ()) -> None:
        ours, theirs = socket.socketpair()
        module = "service.operations.local.processes.supervisor"
        with log_file.open("ab") as log, theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                # -P: never import a folder named `service` in the current directory.
                [sys.executable, "-P", "-m", module, str(log_file)],
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
