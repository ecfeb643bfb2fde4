"""Start programs as forks of a process that has imported them: each would take a second to import.

`python -m tests.warm` is that process: it reads orders from its input and has one thread, as what
it forks must. It has not imported what starts threads: those programs import that when they run.
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
from tempfile import NamedTemporaryFile
from typing import Any, Final

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

        Errors go to the log, unless they have a file of their own. `imports` are modules that the
        program imports before it forks, so that its forks need not.
        """
        order = {
            "arguments": arguments,
            "environment": dict(environment),
            "log": str(log_file),
            "errors": str(error_file or log_file),
            "imports": imports,
        }
        log_file.touch()
        self._forking = _forking()
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
    """The process that forks, and the only one that can wait for its forks."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self._lock = threading.Lock()
        # A session of its own: Ctrl-C is for the tests, which end it when they have ended theirs.
        self._process = subprocess.Popen(
            command,
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        atexit.register(self._end)

    def ask(self, order: str, value: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps([order, value]).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def _end(self) -> None:
        self._process.communicate()


@cache
def _forking() -> _Forking:
    return _Forking()


def _take_orders() -> list[str]:
    """Fork and wait as ordered; return only in a fork: what it is to run."""
    for line in sys.stdin:
        order, value = json.loads(line)
        if order == "start":
            answer: int | None = os.fork()
            if answer == 0:
                _become(value)
                for name in value["imports"]:
                    import_module(name)
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
        os.open(os.devnull, os.O_RDONLY),
        os.open(order["log"], appended, 0o666),
        os.open(order["errors"], appended, 0o666),
    ]
    for number, source in enumerate(opened):
        os.dup2(source, number)
        os.close(source)


if __name__ == "__main__":
    for module in _MODULES:
        import_module(module)
    import_module("worker").prepare()
    # A fork need not look for garbage in what was imported, and so leaves its pages shared.
    gc.freeze()
    sys.argv = _take_orders()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
