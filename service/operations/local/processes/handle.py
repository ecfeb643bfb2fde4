"""What the supervising process runs, and the owner's side of it."""

import pwd
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGTERM
from typing import Any, NamedTuple


def run_as(user: pwd.struct_passwd | None) -> dict[str, Any]:
    """Return the options of `subprocess` that change the user; None is the user of this process."""
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}


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
    """One process to keep running, and to start again with growing pauses.

    Its output is in a log file with its name, which is renamed when it is too long.
    """

    name: str
    command: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    user: pwd.struct_passwd | None = None  # None is the user of the supervisor
    stop_signal: int = SIGTERM
    stop_seconds: float = 10.0
    descriptors: tuple[int, ...] = ()  # open files of the supervisor process, to inherit
    orphans: str | None = None  # processes that outlive a killed one and keep it from starting
    pid_files: tuple[str, str] | None = None  # PostgreSQL's, and that of its socket
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
    program, for example the lock of the data folder. `logs` is the folder of the log files. The
    methods are thread-safe.
    """

    def __init__(self, logs: Path, kept_open: tuple[int, ...] = ()) -> None:
        ours, theirs = socket.socketpair()
        module = "service.operations.local.processes.supervisor"
        with (logs / "supervisor.log").open("ab") as log, theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                # -P: never import a folder named `service` in the current directory.
                [sys.executable, "-P", "-m", module, str(logs)],
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

    def stop(self, name: str) -> None:
        self._order("stop", name)

    def programs(self) -> dict[str, Status]:
        return self._order("ask", None)

    def close(self) -> None:
        """Stop every program in order and wait until all have exited."""
        with self._turn:
            self._orders.close()
            self._process.wait()

    def _order(self, verb: str, what: Program | str | None) -> dict[str, Status]:
        """Return the state of every program after the order."""
        with self._turn:
            try:
                self._orders.send((verb, what))
                answer: dict[str, Status] | str = self._orders.recv()
            except (OSError, EOFError) as error:
                raise SupervisorError("the supervisor process has exited") from error
        if isinstance(answer, str):
            raise SupervisorError(answer)
        return answer
