"""One supervised child: started so that it dies with the supervisor, restarted with backoff."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from service.operations.local.processes.orphans import kill_orphans
from service.operations.local.processes.output import Output
from service.operations.local.processes.probing import Prober
from service.operations.local.processes.program import Program, Status

FIRST_BACKOFF_SECONDS = 0.1
# After running this long, a program counts as healthy and its next crash restarts the backoff.
HEALTHY_SECONDS = 30.0

# Errors that keep a program from starting: files, system limits, the change of user.
START_ERRORS = (OSError, subprocess.SubprocessError)

_PR_SET_PDEATHSIG = 1


class Child:
    """A program and, while it runs, its process."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.output = Output(Path(program.log_file))
        self.crashes = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._started_at = 0.0
        self._restart_at: float | None = None
        self._prober = Prober(program.probe) if program.probe else None

    @property
    def status(self) -> Status:
        return Status(pid=self._process.pid if self._process else None, crashes=self.crashes)

    def start(self) -> None:
        """Start the process unless it is already running."""
        if self._process is not None:
            return
        self._restart_at = None
        for pid_file in self.program.pid_files:
            _disown(Path(pid_file))
        program = self.program
        self._process = subprocess.Popen(  # noqa: S603 - the owner of the data folder names it
            program.command,
            cwd=program.folder,
            env=program.environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output.writer,
            stderr=subprocess.STDOUT,
            # Ctrl-C must reach only the owner, which stops the children in order.
            start_new_session=True,
            user=program.user,
            group=program.group,
            extra_groups=None if program.user is None else [],
            pass_fds=program.descriptors,
            preexec_fn=_die_with_parent(program.stop_signal),
        )
        self._started_at = time.monotonic()
        if self._prober is not None:
            self._prober.begin(self._started_at)

    def check(self) -> str | None:
        """Detect a crash or a hang and restart when it is time; return a message to log."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self._end()
            if self.program.orphans:
                kill_orphans(self.program.orphans)
            return f"{self.program.name} exited with code {code}; {self._plan_restart()}"
        if self._restart_at is not None and time.monotonic() >= self._restart_at:
            try:
                self.start()
            except START_ERRORS as error:  # Such as too many processes; a later try may succeed.
                return f"{self.program.name} didn't start: {error}; {self._plan_restart()}"
        if self._process is None or self._prober is None:
            return None
        complaint = self._prober.find_complaint(time.monotonic())
        if complaint is None:
            return None
        self._process.kill()  # the next check restarts it
        return f"{self.program.name} {complaint}; killed"

    def signal_stop(self, stop_signal: int | None = None) -> None:
        """Ask the process to exit, and cancel any planned restart."""
        self._restart_at = None
        if self._process is not None:
            self._process.send_signal(stop_signal or self.program.stop_signal)

    def wait_stopped(self, pause: Callable[[], None]) -> None:
        """Wait until the process has exited; kill it with its group if it takes too long.

        `pause` is called meanwhile, and must save what the programs print: a full pipe would keep
        the process from exiting.
        """
        if self._process is None:
            return
        ends_at = time.monotonic() + self.program.stop_seconds
        while self._process.poll() is None and time.monotonic() < ends_at:
            pause()
        if self._process.poll() is None:
            # The process isn't reaped yet, so the group ID can't have been reused.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
        self._end()

    def _end(self) -> None:
        self._process = None
        self.output.save()
        self.output.finish()

    def _plan_restart(self) -> str:
        self.crashes += 1
        if time.monotonic() - self._started_at > HEALTHY_SECONDS:
            self._failures = 0
        delay = FIRST_BACKOFF_SECONDS * 2.0**self._failures
        delay = min(delay, self.program.longest_backoff_seconds)
        self._failures = min(self._failures + 1, 10)
        self._restart_at = time.monotonic() + delay
        return f"restarting in {delay:.1f} s"


def _disown(pid_file: Path) -> None:
    """Write our own process ID to the first line, because PostgreSQL accepts its parent's ID.

    The other lines stay: with them, PostgreSQL detects sessions of its predecessor.
    """
    try:
        # The folder belongs to another user, who could place a link to another file.
        descriptor = os.open(pid_file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "r+") as file:
        lines = file.read().splitlines(keepends=True)
        file.seek(0)
        file.truncate()
        file.write("".join([f"{os.getpid()}\n", *lines[1:]]))


def _die_with_parent(death_signal: int) -> Callable[[], None] | None:
    """Return a function for the child to run first, so that the kernel ends it with the supervisor.

    It runs after the change of user, which would clear the setting. It works only on Linux;
    elsewhere the next start stops the children of a killed supervisor.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    supervisor = os.getpid()

    def ask_the_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != supervisor:  # It died in between.
            os._exit(1)

    return ask_the_kernel
