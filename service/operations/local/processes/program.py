"""A program that the supervisor process runs, and its status."""

from dataclasses import dataclass
from signal import SIGTERM


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
    """One process to keep running.

    Programs of a higher `stage` stop before those of a lower stage. Output is appended to
    `log_file`, which is renamed when it is too long. `user` and `group` are IDs; None means those
    of the supervisor.

    A killed predecessor may leave `pid_files` with a process ID that was reused since; before every
    start, it is replaced by the supervisor's own. `orphans` names processes that may outlive a
    killed predecessor and keep the program from starting. The program inherits the open file
    `descriptors` of the supervisor process. A program that fails its `probe` for too long is killed
    and started again. The pause before a restart grows to `longest_backoff_seconds`.
    """

    name: str
    command: tuple[str, ...]
    folder: str
    log_file: str
    environment: dict[str, str]
    user: int | None = None
    group: int | None = None
    stop_signal: int = SIGTERM
    stop_seconds: float = 10.0
    pid_files: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()
    orphans: str | None = None
    stage: int = 0
    probe: Probe | None = None
    longest_backoff_seconds: float = 5.0


@dataclass(frozen=True, kw_only=True)
class Status:
    """The status of a program. `pid` is None while it is down; `crashes` counts its crashes."""

    pid: int | None
    crashes: int
