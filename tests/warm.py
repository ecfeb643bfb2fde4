"""Start programs as forks of a process that has imported them: each would take a second to import.

`python -m tests.warm` is that process: it reads orders from its input and has one thread, as what
it forks must. It has not imported what starts threads: those programs import that when they run.
For programs that are started again and again, it forks another such process, which imports more.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import IO, Any, Final

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
AUDITS: Final = ("detectors.report", "narwhals._polars", "narwhals._polars.dataframe")
# Each web process with payments would take most of a second to import them.
PROVIDERS: Final = ("service.payments.paddle", "service.payments.stripe")


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
        self._forking = _forking_with(tuple(imports)) if imports else _forking()
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
                raise subprocess.TimeoutExpired("a warm process", timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        # Its process ID is not used again before `poll` has found it ended.
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_warm(
    arguments: Sequence[str], environment: Mapping[str, str], timeout: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end in a fork."""
    with NamedTemporaryFile("r") as output, NamedTemporaryFile("r") as errors:
        process = WarmProcess(arguments, environment, Path(output.name), Path(errors.name))
        code = process.wait(timeout)
        return subprocess.CompletedProcess(arguments, code, output.read(), errors.read())


class _Forking:
    """A process that forks, and the only one that can wait for its forks."""

    def __init__(self, orders: IO[bytes], answers: IO[bytes]) -> None:
        self._lock = threading.Lock()
        self._orders, self._answers = orders, answers

    def ask(self, order: str, value: object) -> Any:
        with self._lock:
            self._orders.write(json.dumps([order, value]).encode() + b"\n")
            self._orders.flush()
            return json.loads(self._answers.readline())


@cache
def _forking() -> _Forking:
    # A session of its own: Ctrl-C is for the tests, which end it when they have ended theirs.
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    atexit.register(process.communicate)
    return _Forking(process.stdin, process.stdout)


@cache
def _forking_with(imports: tuple[str, ...]) -> _Forking:
    """Fork the process, and let its fork import more; it ends when its orders do."""
    with TemporaryDirectory() as folder:
        pipes = [Path(folder) / name for name in ("orders", "answers")]
        for pipe in pipes:
            os.mkfifo(pipe)
        order = {
            "arguments": [__name__, *imports],
            "environment": dict(os.environ),
            "input": str(pipes[0]),
            "log": str(pipes[1]),
            "errors": os.devnull,
        }
        _forking().ask("start", order)
        orders = pipes[0].open("wb")
        atexit.register(orders.close)
        return _Forking(orders, pipes[1].open("rb"))


def _take_orders() -> list[str]:
    """Fork and wait as ordered; return only in a fork: what it is to run."""
    for line in sys.stdin:
        order, value = json.loads(line)
        if order == "start":
            answer: int | None = os.fork()
            if answer == 0:
                _become(value)
                arguments: list[str] = value["arguments"]
                return arguments
        else:
            pid, status = os.waitpid(value, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    sys.exit()


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


if __name__ == "__main__":
    # Threads of Polars would free its memory; a fork has none of the threads.
    os.environ["_RJEM_MALLOC_CONF"] = "background_thread:false"
    for module in (*_MODULES, *sys.argv[1:]):
        import_module(module)
    import_module("worker").prepare()
    # A fork need not look for garbage in what was imported, and so leaves its pages shared.
    gc.freeze()
    sys.argv = _take_orders()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
