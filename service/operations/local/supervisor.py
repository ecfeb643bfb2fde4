"""The supervisor process, which reads orders from its stdin.

`python -P -m service.operations.local.supervisor LOGS`

It exits with its owner, however that dies: its socket closes or its parent changes. It must stay
small and single-threaded, because it has to outlive everything else.
"""

import contextlib
import ctypes
import fcntl
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from logging.handlers import RotatingFileHandler
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import psutil

from service.operations.local.handle import Probe, Program, Status, run_as

FIRST_BACKOFF_SECONDS: Final = 0.1
# How long a program may be silent, or answer that it is starting.
SILENT_SECONDS: Final = 10.0
STARTING_SECONDS: Final = 300.0
LONGEST_LOG_BYTES: Final = 10_000_000
OLDER_LOGS: Final = 9
# Room for what is printed while the supervisor does something else. When there is none, a write of
# more than 4,096 bytes may be mixed with those of other processes.
_PIPE_BYTES: Final = 1024 * 1024

# Errors that keep a program from starting: files, system limits, the change of user.
START_ERRORS: Final = (OSError, subprocess.SubprocessError)

# Linux ends the children of a killed supervisor, and hands it those of a killed program. Elsewhere,
# the next start stops the former, and the latter remain.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else lambda *_options: 0
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def open_log(path: Path) -> logging.Logger:
    """Return a log that is renamed to `.1` once it is too long, in which a message stays whole."""
    log = logging.Logger(path.stem)
    handler = RotatingFileHandler(path, "a", LONGEST_LOG_BYTES, OLDER_LOGS, "utf-8", delay=True)
    log.addHandler(handler)
    return log


class Prober:
    """Ask one program again and again, without waiting, and count how long it has not been ready.

    Each time a program was killed without having been ready since, it gets twice the time: a slow
    machine must not keep a server from ever finishing its recovery.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe, self._patience = probe, 1
        self._connection: socket.socket | None = None
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Start to count for a new process."""
        self._hang_up()
        self._looked_at = self._ask_at = now
        self._silent_seconds = self._starting_seconds = 0.0

    def find_complaint(self, now: float) -> str | None:
        """Ask or listen; return what is wrong once it has lasted for too long."""
        # Time in which this process did not run either says nothing about the program.
        passed, self._looked_at = min(now - self._looked_at, 1.0), now
        self._silent_seconds += passed
        self._starting_seconds += passed
        try:
            if self._connection is not None:
                # Programs send their whole answer at once, and then hang up.
                answer = self._connection.recv(4096)
                if answer:
                    self._silent_seconds = 0.0
                    if self._probe.not_ready not in answer:
                        self._starting_seconds, self._patience = 0.0, 1
                self._hang_up()
            elif now >= self._ask_at:
                self._ask_at = now + 2.0  # an answer costs PostgreSQL a new session, about 4 ms
                self._connection = socket.socket(socket.AF_UNIX)
                self._connection.setblocking(False)
                self._connection.connect(self._probe.socket)
                self._connection.sendall(self._probe.question)
        except BlockingIOError:
            pass  # the answer comes later
        except OSError:  # nobody listens, or it was killed
            self._hang_up()
        for missed, waited, most in (
            ("answered", self._silent_seconds, SILENT_SECONDS),
            ("been ready", self._starting_seconds, STARTING_SECONDS),
        ):
            if waited > most * self._patience:
                self._patience = min(2 * self._patience, 64)
                self.begin(now)
                return f"hasn't {missed} for {waited:.0f} s"
        return None

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Child:
    """A program and, while it runs, its process, which dies with this one.

    The pipe to its log stays open when it restarts: a process that outlives it can still write.
    """

    def __init__(self, program: Program, logs: Path) -> None:
        self.program = program
        self.process: subprocess.Popen[bytes] | None = None
        self.crashes = 0
        self.output, self._output_writer = os.pipe()
        os.set_blocking(self.output, False)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # the user may have no room left
                fcntl.fcntl(self._output_writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._log, self._unfinished = open_log(logs / f"{program.name}.log"), b""
        self._started_at = 0.0
        self._backoff_seconds = FIRST_BACKOFF_SECONDS
        self.restart_at: float | None = None
        self._prober = Prober(program.probe) if program.probe else None

    def start(self) -> None:
        """Start the process unless it is already running."""
        if self.process is not None:
            return
        self.restart_at, self._started_at = None, time.monotonic()
        program, supervisor = self.program, os.getpid()
        predecessor = name_predecessor(*program.pid_files) if program.pid_files else {}

        def die_with_supervisor() -> None:
            # After the change of user, which would clear the setting.
            _prctl(_PR_SET_PDEATHSIG, program.stop_signal, 0, 0, 0)
            if os.getppid() != supervisor:  # It died in between.
                os._exit(1)

        self.process = subprocess.Popen(  # noqa: S603 - the owner of the data folder names it
            program.command,
            cwd=program.folder,
            env=program.environment | predecessor,
            stdin=subprocess.DEVNULL,
            stdout=self._output_writer,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the owner, which stops them in order
            pass_fds=program.descriptors,
            preexec_fn=die_with_supervisor,
            **run_as(program.user),
        )
        if self._prober is not None:
            self._prober.begin(self._started_at)

    def check(self) -> str | None:
        """Detect a crash or a hang and restart when it is time; return a message to log."""
        name, now = self.program.name, time.monotonic()
        if self.process is not None and (code := self.process.poll()) is not None:
            self.end()
            if self.program.pid_files:  # a busy session of a killed PostgreSQL blocks the next
                kill_orphans(name)
            return f"{name} exited with code {code}; {self._plan_restart()}"
        if self.restart_at is not None and now >= self.restart_at:
            try:
                self.start()
            except START_ERRORS as error:  # Such as too many processes; a later try may succeed.
                return f"{name} didn't start: {error}; {self._plan_restart()}"
        if self.process and self._prober and (complaint := self._prober.find_complaint(now)):
            self.process.kill()  # the next check restarts it
            return f"{name} {complaint}; killed"
        return None

    def end(self) -> None:
        """Kill the process with its group unless it has exited, and write its last line."""
        if self.process is not None and self.process.poll() is None:
            # The process isn't reaped yet, so the group ID can't have been reused.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        self.process = None
        self.save_output(is_over=True)

    def save_output(self, *, is_over: bool = False) -> None:
        """Log the complete lines; also the last one if its process `is_over`."""
        printed = self._unfinished
        with contextlib.suppress(BlockingIOError):
            printed += os.read(self.output, _PIPE_BYTES)
        lines, newline, rest = printed.rpartition(b"\n")
        if rest and (is_over or len(rest) > _PIPE_BYTES):  # an endless line is written in parts
            lines, newline, rest = printed, b"\n", b""
        if newline:
            self._log.info(lines.decode(errors="backslashreplace"))
        self._unfinished = rest

    def _plan_restart(self) -> str:
        self.crashes += 1
        now = time.monotonic()
        if now - self._started_at > 30.0:  # it was healthy
            self._backoff_seconds = FIRST_BACKOFF_SECONDS
        delay = min(self._backoff_seconds, self.program.longest_backoff_seconds)
        self._backoff_seconds = 2 * delay
        self.restart_at = now + delay
        return f"restarting in {delay:.1f} s"


def name_predecessor(pid_file: str, socket_lock: str) -> dict[str, str]:
    """Return settings with which PostgreSQL starts after its predecessor was killed.

    It refuses to start while the process IDs in its files are in use, even by another program, but
    ignores that of its grandparent. `postmaster.pid` stays: without it, PostgreSQL wouldn't notice
    sessions of its predecessor that are still running.
    """
    Path(socket_lock).unlink(missing_ok=True)
    try:
        # The folder belongs to another user, who could place a link to another file.
        with os.fdopen(os.open(pid_file, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            return {"PG_GRANDPARENT_PID": str(int(file.readline()))}
    except FileNotFoundError:
        return {}
    except ValueError:  # it was killed before it wrote its ID
        Path(pid_file).unlink()
        return {}


def kill_orphans(name: str | None = None, spared: frozenset[int] = frozenset()) -> None:
    """Kill processes whose parent, a program, was killed: those with this name, or all.

    Linux makes them children of the supervisor, so their IDs aren't reused until they are reaped.
    """
    orphans = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # It has just exited.
            if child.pid not in spared and name in (None, child.name()):
                child.kill()
                orphans.append(child)
    psutil.wait_procs(orphans, timeout=5)


class SupervisingProcess:
    """Run the programs that the owner orders, until the owner exits or closes its socket."""

    def __init__(self, orders: Connection, logs: Path) -> None:
        self._orders, self._logs, self._log = orders, logs, open_log(logs / "supervisor.log")
        self._children: dict[str, Child] = {}

    def run(self) -> None:
        owner, ending = os.getppid(), list[int]()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, _frame: ending.append(number))
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            while not ending and os.getppid() == owner:
                if self._pause(0.1, self._orders.fileno()):
                    try:
                        self._orders.send(self._obey(*self._orders.recv()))
                    except (EOFError, OSError):
                        break
                for child in self._children.values():
                    if event := child.check():
                        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                        self._log.info(f"{now} {event}")
                if sys.platform == "linux":  # orphans that exited; `Child` objects reap our own
                    peek = (os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                    with contextlib.suppress(ChildProcessError):
                        while (ended := os.waitid(*peek)) and ended.si_pid not in self._own_pids():
                            os.waitpid(ended.si_pid, 0)
        finally:
            children = self._children.values()
            for is_server in (False, True):
                self._stop(child for child in children if child.program.is_server == is_server)
                # Orphans of a killed program must not keep using servers that are about to stop.
                kill_orphans(spared=self._own_pids())
            for child in children:
                child.save_output(is_over=True)

    def _pause(self, seconds: float, *awaited: int) -> bool:
        """Wait for output, and save it; return whether an awaited descriptor is ready."""
        printing = {child.output: child for child in self._children.values()}
        ready, _, _ = select.select([*awaited, *printing], [], [], seconds)
        for descriptor in printing.keys() & set(ready):
            printing[descriptor].save_output()
        return not printing.keys() >= set(ready)

    def _stop(self, children: Iterable[Child]) -> None:
        """Stop programs at the same time, and kill those that take too long."""
        stopping, asked_at = list(children), time.monotonic()
        for child in stopping:
            child.restart_at = None
            if child.process is not None:
                child.process.send_signal(child.program.stop_signal)
        for child in stopping:
            ends_at = asked_at + child.program.stop_seconds
            # What they print is saved meanwhile: a full pipe would keep them from exiting.
            while child.process and child.process.poll() is None and time.monotonic() < ends_at:
                self._pause(0.02)
            child.end()

    def _obey(self, verb: str, what: Any) -> dict[str, Status] | str:
        """Return the state of all programs, or why the order failed."""
        try:
            if verb == "start":
                if what.name not in self._children:
                    self._children[what.name] = Child(what, self._logs)
                self._children[what.name].start()
            elif verb == "stop":
                self._stop(child for name, child in self._children.items() if name == what)
        except START_ERRORS as error:
            return str(error)
        return {
            name: Status(child.process.pid if child.process else None, child.crashes)
            for name, child in self._children.items()
        }

    def _own_pids(self) -> frozenset[int]:
        return frozenset(child.process.pid for child in self._children.values() if child.process)


if __name__ == "__main__":
    SupervisingProcess(Connection(sys.stdin.fileno()), Path(sys.argv[1])).run()
