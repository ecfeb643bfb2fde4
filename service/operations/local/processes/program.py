"""What the owner and its supervising process say to each other: one JSON value a line."""

from signal import SIGTERM

from msgspec import Struct


class Program(Struct, frozen=True, kw_only=True):
    """One process to keep running.

    Programs of a higher `stage` are stopped before those of a lower one. Its output is appended to
    `log_file`. `user` and `group` are ids, None for the supervisor's own.

    `pid_files` are left behind by a killed predecessor, and the number in them may belong to a
    stranger by now: before every start, it is replaced by the supervisor's own. `orphans` is the
    name of processes that may outlive a killed predecessor and keep its successor from starting.
    `descriptors` are open files of the supervising process that the program inherits.
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


class Start(Struct, frozen=True, tag=True):
    """Start a program, or one that was stopped, and keep it running."""

    program: Program


class Stop(Struct, frozen=True, tag=True):
    """Stop a program and leave it stopped; `signal` replaces the program's own stop signal."""

    name: str
    signal: int | None = None


class Ask(Struct, frozen=True, tag=True):
    """Ask how the programs do."""


Order = Start | Stop | Ask


class Status(Struct, frozen=True, kw_only=True):
    """`pid` is None while the program is down; `crashes` counts ends that nobody asked for."""

    pid: int | None
    crashes: int


class Answer(Struct, frozen=True, kw_only=True):
    """How every program does after an order, or why the order failed."""

    programs: dict[str, Status] = {}
    error: str | None = None
