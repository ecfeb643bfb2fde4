"""Start programs as forks of a process that has imported them: each would take a second to import.

`python -m tests.warm` is that process, one for all processes of a test run: it takes orders from a
socket and has one thread, as what it forks must. It has not imported what starts threads: those
programs import that when they run. For programs that are started again and again, it forks another
such process, which imports more. Both end when no process of the run is connected.
"""

import atexit
import faulthandler
import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Final, NoReturn
from zlib import crc32

import psutil

from tests.run_folder import run_folder
from tests.service.support.compiled_templates import compile_templates_once

_ROOT: Final = Path(__file__).parents[1]
_MODULES: Final = (
    "gunicorn.app.wsgiapp",
    "gunicorn.workers.gthread",
    "psycopg2.extras",
    "service.app",
    "service.cli.processes",
    "service.cli.up",
    "service.jobs.process",
    "service.mail.job",
    "service.notices.job",
    "service.operations.maintenance.sweeper",
    "service.web.server.gunicorn_config",
    "service.web.server.web_process",
    "valkey",
)
# For `imports`: what an audit imports, half of what a job's process takes to be ready. Polars has a
# thread for files that audits don't write; a fork has one thread again.
AUDITS: Final = ("detectors.report",)
# Each web process with payments would take most of a second to import them.
PROVIDERS: Final = ("service.payments.paddle", "service.payments.stripe")
_started: Final[list[subprocess.Popen[bytes]]] = []


class WarmProcess:
    """A forked program, used like a `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log_file: Path,
        error_file: Path | None = None,
        imports: Sequence[str] = (),
    ) -> None:
        """`arguments` are those of `python -m`, the module first; the files are appended to.

        Errors go to the log, unless they have a file of their own. `imports` are more modules that
        the process that forks has imported.
        """
        order = {
            "arguments": arguments,
            "environment": dict(environment),
            "input": os.devnull,
            "log": str(log_file),
            "errors": str(error_file or log_file),
        }
        log_file.touch()
        self._error_file = error_file or log_file
        self._forking = _forking(tuple(imports))
        self.pid: int = self._forking.ask("start", order)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forking.ask("poll", self.pid)
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                late = subprocess.TimeoutExpired("a warm process", timeout)
                late.add_note(self._abort())
                raise late
            time.sleep(0.01)
        return code

    def _abort(self) -> str:
        """Let it and what it has forked print where they are, and end; return the last lines."""
        process = psutil.Process(self.pid)
        processes = [process, *process.children(recursive=True)]
        for each in processes:
            each.send_signal(signal.SIGABRT)
        psutil.wait_procs(processes, timeout=5)
        return self._error_file.read_text(errors="replace")[-10_000:]

    def send_signal(self, number: int) -> None:
        # Its process ID is not used again before `poll` has found it ended.
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_warm(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    timeout: float = 60,
    imports: Sequence[str] = (),
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end in a fork."""
    with NamedTemporaryFile("r") as output, NamedTemporaryFile("r") as errors:
        files = Path(output.name), Path(errors.name)
        process = WarmProcess(arguments, environment, *files, imports)
        code = process.wait(timeout)
        return subprocess.CompletedProcess(arguments, code, output.read(), errors.read())


class _Forking:
    """A process that forks for every process of the run; only it can wait for its forks."""

    def __init__(self, connection: socket.socket) -> None:
        self._lock = threading.Lock()
        self._connection, self._answers = connection, connection.makefile("rb")

    def ask(self, order: str, value: object) -> Any:
        with self._lock:
            self._connection.sendall(json.dumps([order, value]).encode() + b"\n")
            return json.loads(self._answers.readline())


@cache
def _forking(imports: tuple[str, ...] = ()) -> _Forking:
    """Connect to the process with these imports, which the first that needs it starts."""
    # The path of a socket must be short.
    address = run_folder() / f"warm-{crc32(' '.join(imports).encode()):x}"
    with address.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        deadline, is_started = time.monotonic() + 120, False
        while True:
            try:
                return _connect(address)
            except (OSError, ValueError):
                assert time.monotonic() < deadline
            if not is_started:
                _start(address, imports)
                is_started = True
            time.sleep(0.02)


def _connect(address: Path) -> _Forking:
    """Raise where no process is listening, or one that is just ending."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(address))
        forking = _Forking(connection)
        forking.ask("greet", None)
    except (OSError, ValueError):
        connection.close()
        raise
    return forking


def _start(address: Path, imports: tuple[str, ...]) -> None:
    """Start the process with the usual imports, or let that fork one with more."""
    arguments = [__name__, str(address), *imports]
    if not imports:
        # A session of its own: Ctrl-C is for the tests, which end it when they have ended theirs.
        command = [sys.executable, "-m", *arguments]
        _started.append(subprocess.Popen(command, cwd=_ROOT, start_new_session=True))
        return
    order = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "input": os.devnull,
        "log": os.devnull,
        "errors": os.devnull,
    }
    _forking().ask("start", order)


def _take_orders(address: Path) -> list[str]:
    """Fork and wait as ordered until nobody is connected; return only in a fork, with its order."""
    listening = socket.socket(socket.AF_UNIX)
    address.unlink(missing_ok=True)
    listening.bind(str(address))
    listening.listen(64)
    clients: dict[socket.socket, IO[bytes]] = {}
    while True:
        # Who ordered it may have been killed before connecting.
        ready, _, _ = select.select([listening, *clients], [], [], None if clients else 60)
        for one in ready:
            if one is listening:
                client, _ = listening.accept()
                clients[client] = client.makefile("rb")
            elif line := clients[one].readline():
                order, value = json.loads(line)
                answer = _obey(order, value)
                if answer == 0 and order == "start":
                    _close(listening, *clients.values(), *clients)
                    _become(value)
                    return list(value["arguments"])
                one.sendall(json.dumps(answer).encode() + b"\n")
            else:
                _close(clients.pop(one), one)
        if not clients:
            sys.exit()


def _close(*opened: socket.socket | IO[bytes]) -> None:
    for each in opened:
        each.close()


def _obey(order: str, value: Any) -> int | None:
    """Return the new process's ID, in it 0, or the exit status of a fork that has ended."""
    if order == "start":
        return os.fork()
    if order == "greet":
        return os.getpid()
    pid, status = os.waitpid(value, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


def _become(order: dict[str, Any]) -> None:
    """Take the order's environment, log and session, as a program of a service manager has."""
    os.setsid()
    os.environ.clear()
    os.environ.update(order["environment"])
    appended = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    opened = [
        os.open(order["input"], os.O_RDONLY),
        os.open(order["log"], appended, 0o666),
        os.open(order["errors"], appended, 0o666),
    ]
    for number, source in enumerate(opened):
        os.dup2(source, number)
        os.close(source)
    faulthandler.enable()


def _run(module: str) -> int:
    """Run the module to its end and return the exit status; other errors end it as usual."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
            return 1
        return ended.code or 0
    return 0


def _leave(status: int) -> NoReturn:
    """Exit as Python does, but for freeing every object: that would copy all shared pages."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    # Threads of Polars would free its memory; a fork has none of the threads.
    os.environ["_RJEM_MALLOC_CONF"] = "background_thread:false"
    for module in (*_MODULES, *sys.argv[2:]):
        import_module(module)
    import_module("worker").prepare()
    compile_templates_once()
    # A fork need not look for garbage in what was imported, and so leaves its pages shared.
    gc.freeze()
    sys.argv = _take_orders(Path(sys.argv[1]))
    _leave(_run(sys.argv[0]))
