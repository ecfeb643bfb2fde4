"""What the supervising process runs, the owner's side of it, and the errors of both."""

import pwd
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from signal import SIGTERM
from typing import Any, NamedTuple


class ServersError(Exception):
    """Base of all errors of the local stack; every message is one line for a person."""


class ServerStartError(ServersError):
    """A server doesn't start; its log says why."""

    def __init__(self, program: str, log_file: Path) -> None:
        super().__init__(f"{program} didn't start; see {log_file}")


def run_as(user: pwd.struct_passwd | None) -> dict[str, Any]:
    """Return the options of `subprocess` that change the user; None is the user of this process."""
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}


class Probe(NamedTuple):
    """How to see from outside that a program works.

    The program answers `question` on its Unix `socket` and closes the connection. An answer with
    `not_ready` in it says that the program is still starting, which may take long.
    """

    socket: str
    question: bytes
    not_ready: bytes


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
    pid_files: tuple[str, str] | None = None  # PostgreSQL's, and that of its socket
    is_server: bool = False  # it stops after the programs that use it
    probe: Probe | None = None  # one that fails it for too long is killed and started again
    longest_backoff_seconds: float = 5.0


class Status(NamedTuple):
    """The status of a program. `pid` is None while it is down; `crashes` counts its crashes."""

    pid: int | None
    crashes: int


class Supervisor:
    """Start and stop programs through a separate process that ends with this process.

    The supervisor process holds the file descriptors `kept_open` until it has stopped every
    program, for example the lock of the data folder. `logs` is the folder of the log files. The
    methods are thread-safe.
    """

    def __init__(self, logs: Path, kept_open: tuple[int, ...] = ()) -> None:
        self._orders, theirs = Pipe()
        module = "service.operations.local.supervisor"
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
        self.pid = self._process.pid
        self._turn = threading.Lock()

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
                raise ServersError("the supervisor process has exited") from error
        if isinstance(answer, str):
            raise ServersError(answer)
        return answer
