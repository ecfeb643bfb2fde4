"""The supervisor process, which reads orders from its stdin.

`python -P -m service.operations.local.processes.supervisor LOGS`

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
import subprocess
import sys
import time
from collections.abc import Iterable
from logging.handlers import RotatingFileHandler
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Final

import psutil

from service.operations.local.processes.handle import Program, Status, run_as
from service.operations.local.processes.probing import Prober

POLL_SECONDS: Final = 0.1
STOPPING_POLL_SECONDS: Final = 0.02
ORPHANS_SECONDS: Final = 5.0
FIRST_BACKOFF_SECONDS: Final = 0.1
# After running this long, a program counts as healthy and its next crash restarts the backoff.
HEALTHY_SECONDS: Final = 30.0

LONGEST_LOG_BYTES: Final = 10_000_000
OLDER_LOGS: Final = 9
# Room for what is printed while the supervisor does something else. When there is none, a write of
# more than 4,096 bytes may be mixed with those of other processes.
_PIPE_BYTES: Final = 1024 * 1024

# Errors that keep a program from starting: files, system limits, the change of user.
START_ERRORS: Final = (OSError, subprocess.SubprocessError)

# Linux ends the children of a killed supervisor, and hands it those of a killed program. Elsewhere,
# the next start stops the former, and the latter remain.
_prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class LogFile(RotatingFileHandler):
    """A log that is renamed to `.1` once it is too long, and deleted after `OLDER_LOGS` renames."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, maxBytes=LONGEST_LOG_BYTES, backupCount=OLDER_LOGS, encoding="utf-8", delay=True
        )

    def write(self, lines: str) -> None:
        """Write lines, which stay in one file."""
        self.emit(logging.makeLogRecord({"msg": lines}))


class Output(LogFile):
    """The log of a program, and the pipe to it that its processes write to.

    The pipe stays open when the program restarts: a process that outlives it can still write.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # only Linux has it, and the user may have no room left
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._unfinished = b""

    def save(self, *, is_over: bool = False) -> None:
        """Write the complete lines; also the last one if its process `is_over`."""
        printed = self._unfinished
        with contextlib.suppress(BlockingIOError):
            printed += os.read(self.reader, _PIPE_BYTES)
        lines, newline, rest = printed.rpartition(b"\n")
        if rest and (is_over or len(rest) > _PIPE_BYTES):  # an endless line is written in parts
            lines, newline, rest = printed, b"\n", b""
        if newline:
            self.write(lines.decode(errors="backslashreplace"))
        self._unfinished = rest


class Child:
    """A program and, while it runs, its process, which dies with this one."""

    def __init__(self, program: Program, logs: Path) -> None:
        self.program = program
        self.output = Output(logs / f"{program.name}.log")
        self.process: subprocess.Popen[bytes] | None = None
        self.crashes = 0
        self._failures = 0
        self._started_at = 0.0
        self._restart_at: float | None = None
        self._prober = Prober(program.probe) if program.probe else None

    def start(self) -> None:
        """Start the process unless it is already running."""
        if self.process is not None:
            return
        self._restart_at = None
        program, supervisor = self.program, os.getpid()
        environment = program.environment
        if program.pid_files:
            environment = environment | name_predecessor(*program.pid_files)

        def die_with_supervisor() -> None:
            # After the change of user, which would clear the setting.
            if _prctl is not None:
                _prctl(_PR_SET_PDEATHSIG, program.stop_signal, 0, 0, 0)
                if os.getppid() != supervisor:  # It died in between.
                    os._exit(1)

        self.process = subprocess.Popen(  # noqa: S603 - the owner of the data folder names it
            program.command,
            cwd=program.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output.writer,
            stderr=subprocess.STDOUT,
            # Ctrl-C must reach only the owner, which stops the children in order.
            start_new_session=True,
            pass_fds=program.descriptors,
            preexec_fn=die_with_supervisor if _prctl is not None else None,
            **run_as(program.user),
        )
        self._started_at = time.monotonic()
        if self._prober is not None:
            self._prober.begin(self._started_at)

    def check(self) -> str | None:
        """Detect a crash or a hang and restart when it is time; return a message to log."""
        name, now = self.program.name, time.monotonic()
        if self.process is not None and (code := self.process.poll()) is not None:
            self.end()
            if self.program.orphans:
                kill_orphans(self.program.orphans)
            return f"{name} exited with code {code}; {self._plan_restart()}"
        if self._restart_at is not None and now >= self._restart_at:
            try:
                self.start()
            except START_ERRORS as error:  # Such as too many processes; a later try may succeed.
                return f"{name} didn't start: {error}; {self._plan_restart()}"
        if self.process and self._prober and (complaint := self._prober.find_complaint(now)):
            self.process.kill()  # the next check restarts it
            return f"{name} {complaint}; killed"
        return None

    def ask_to_stop(self) -> None:
        """Ask the process to exit, and cancel any planned restart."""
        self._restart_at = None
        if self.process is not None:
            self.process.send_signal(self.program.stop_signal)

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self) -> None:
        """Kill the process with its group unless it has exited, and write its last line."""
        if self.process is not None and self.process.poll() is None:
            # The process isn't reaped yet, so the group ID can't have been reused.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        self.process = None
        self.output.save(is_over=True)

    def _plan_restart(self) -> str:
        self.crashes += 1
        if time.monotonic() - self._started_at > HEALTHY_SECONDS:
            self._failures = 0
        delay = FIRST_BACKOFF_SECONDS * 2.0**self._failures
        delay = min(delay, self.program.longest_backoff_seconds)
        self._failures = min(self._failures + 1, 10)
        self._restart_at = time.monotonic() + delay
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
    psutil.wait_procs(orphans, timeout=ORPHANS_SECONDS)


class SupervisingProcess:
    """Run the programs that the owner orders, until the owner exits or closes its socket."""

    def __init__(self, orders: Connection, logs: Path) -> None:
        self._orders = orders
        self._logs = logs
        self._log = LogFile(logs / "supervisor.log")
        self._owner = os.getppid()
        self._children: dict[str, Child] = {}
        self._ending = False

    def run(self) -> None:
        def end(_signal: int, _frame: FrameType | None) -> None:
            self._ending = True

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, end)
        if _prctl is not None:
            _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            while not self._ending and os.getppid() == self._owner:
                if self._pause(POLL_SECONDS, self._orders.fileno()):
                    try:
                        self._orders.send(self._obey(*self._orders.recv()))
                    except (EOFError, OSError):
                        break
                self._check_children()
                self._reap_orphans()
        finally:
            children = self._children.values()
            for stage in sorted({child.program.stage for child in children}, reverse=True):
                self._stop(child for child in children if child.program.stage == stage)
                # Orphans of a killed program must not keep using servers that are about to stop.
                kill_orphans(spared=self._own_pids())
            for child in children:
                child.output.save(is_over=True)

    def _pause(self, seconds: float, *awaited: int) -> bool:
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

    def _stop(self, children: Iterable[Child]) -> None:
        """Stop programs at the same time, and kill those that take too long."""
        stopping, asked_at = list(children), time.monotonic()
        for child in stopping:
            child.ask_to_stop()
        for child in stopping:
            ends_at = asked_at + child.program.stop_seconds
            # What they print is saved meanwhile: a full pipe would keep them from exiting.
            while child.is_running() and time.monotonic() < ends_at:
                self._pause(STOPPING_POLL_SECONDS)
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
            else:
                self._check_children()
        except START_ERRORS as error:
            return str(error)
        return {
            name: Status(child.process.pid if child.process else None, child.crashes)
            for name, child in self._children.items()
        }

    def _check_children(self) -> None:
        for child in self._children.values():
            if event := child.check():
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                self._log.write(f"{now} {event}")

    def _reap_orphans(self) -> None:
        """Reap orphans that exited; leave our own children to their `Child` objects."""
        if _prctl is None:
            return
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid in self._own_pids():
                    return
                os.waitpid(ended.si_pid, 0)

    def _own_pids(self) -> frozenset[int]:
        return frozenset(child.process.pid for child in self._children.values() if child.process)


if __name__ == "__main__":
    SupervisingProcess(Connection(sys.stdin.fileno()), Path(sys.argv[1])).run()
