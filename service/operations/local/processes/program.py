"""The messages between the owner and its supervisor process: one JSON value per line."""

from signal import SIGTERM

from msgspec import Struct


class Probe(Struct, frozen=True, kw_only=True):
    """How to see from outside that a program works.

    The program answers `question` on its Unix `socket` and closes the connection. An answer with
    `not_ready` in it says that the program is still starting, which may take long.
    """

    socket: str
    question: bytes
    not_ready: bytes
    silent_seconds: float = 10.0
    not_ready_seconds: float = 300.0


class Program(Struct, frozen=True, kw_only=True):
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


class Start(Struct, frozen=True, tag=True):
    """Start a new or stopped program, and keep it running."""

    program: Program


class Stop(Struct, frozen=True, tag=True):
    """Stop a program and keep it stopped; `signal` overrides the program's stop signal."""

    name: str
    signal: int | None = None


class Ask(Struct, frozen=True, tag=True):
    """Ask for the status of all programs."""


Order = Start | Stop | Ask


class Status(Struct, frozen=True, kw_only=True):
    """The status of a program. `pid` is None while it is down; `crashes` counts its crashes."""

    pid: int | None
    crashes: int


class Answer(Struct, frozen=True, kw_only=True):
    """The status of every program after an order, or why the order failed."""

    programs: dict[str, Status] = {}
    error: str | None = None
