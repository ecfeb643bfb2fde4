"""`tallystick up` and `tallystick demo` as a user runs them, and a checkout to run them in."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

import psutil

from service.cli.local_calls import LocalService
from service.config import Config
from service.operations.local.run_state import find_state
from tests.embedded.processes import is_gone
from tests.warm import run_warm

ROOT = Path(__file__).parents[1]
# Tests that send one request at a time need one process of each kind.
ONE_WEB_PROCESS = {"GUNICORN_CMD_ARGS": "--workers=1"}
ONE_OF_EACH = {"WORKER_PROCESSES": "1", **ONE_WEB_PROCESS}
_Kind = TypeVar("_Kind", bound="Running")


class Running:
    """A command that runs the whole service until a signal, and the processes under it."""

    program: tuple[str, ...] = (str(Path(sys.prefix) / "bin" / "tallystick"),)

    def __init__(self, folder: Path, *arguments: str, **settings: str) -> None:
        """Run it beside its data folder, so that the default folder is the one named `var`."""
        self.folder = folder
        data = () if folder.name == "var" else ("--data", str(folder))
        self.process = subprocess.Popen(
            [*self.program, *arguments, *data],
            cwd=folder.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**plain_environment(), **settings},
        )

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def find(self, argument: str) -> list[psutil.Process]:
        """Return the processes with this word in their command line, parents first."""
        return [child for child in self.processes() if argument in words_of(child)]

    def stop(self, stop_signal: signal.Signals) -> tuple[int, str]:
        """Return its exit status and what it said on standard error."""
        self.process.send_signal(stop_signal)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said

    def stop_in_order(self, stop_signal: signal.Signals) -> None:
        """Stop it, and check that nothing of it remains after seconds."""
        everyone = self.processes()
        assert len(everyone) > 8
        status, said = self.stop(stop_signal)
        # The notice appears where an ordinary user can't run root's own Python.
        said = re.sub("(?m)^(Adding sample data …|Note: the service runs as root.*)\n", "", said)
        assert (status, said) == (0, "Stopping.\n")
        assert all(is_gone(process.pid) for process in everyone)
        assert not (self.folder / "state.json").exists()


class Up(Running):
    """A running `tallystick up`."""

    def __init__(self, folder: Path, *options: str, **settings: str) -> None:
        super().__init__(folder, "up", *options, **settings)
        self.ready_line = self.read_line()
        self.sign_in_line = self.read_line()
        self.seed_line = self.read_line() if "--seed" in options else ""
        self.base_url = self.ready_line.split()[4] if self.ready_line else ""

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2])

    def service(self) -> LocalService:
        """Return what its own commands know of it."""
        state = find_state(self.folder)
        assert state is not None
        return LocalService(Config.from_environment(state), self.port)


class Demo(Running):
    """A running `tallystick demo`, after it has printed its report."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, "demo", **settings)
        lines = iter(self.read_line, "")
        self.printed = "".join(takewhile(lambda line: not line.startswith("Serving at"), lines))


def make_open_python(parent: Path) -> dict[str, str]:
    """An interpreter and its settings that every user can run, even if root's own is private.

    For others than root, it is empty: they run their own.
    """
    if os.geteuid() != 0:
        return {}
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base, copy = Path(sys.base_prefix), parent / "python"
    ignored = shutil.ignore_patterns("site-packages", "test", "tests", "config-*")
    shutil.copytree(base / "lib" / version, copy / "lib" / version, symlinks=True, ignore=ignored)
    for library in (base / "lib").glob("libpython3*"):
        shutil.copy(library, copy / "lib")
    (copy / "bin").mkdir()
    shutil.copy((base / "bin" / version).resolve(), copy / "bin" / version)
    for folder in (copy, copy / "lib", copy / "bin"):
        folder.chmod(0o755)
    installed = Path(psutil.__file__).parents[1]
    return {
        "PYTHON": str(copy / "bin" / version),
        "LD_LIBRARY_PATH": str(copy / "lib"),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "client", installed))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def open_program(kind: type[_Kind], open_python: Mapping[str, str]) -> type[_Kind]:
    """Return the same for an interpreter that other users can run; without one, as it is."""
    if not open_python:
        return kind
    return type(kind.__name__, (kind,), {"program": (open_python["PYTHON"], "-m", "service")})


def make_data_of_earlier_release(folder: Path) -> Path:
    """Create a data folder with a private blob, which `up` as root gives to an ordinary user."""
    folder.mkdir(mode=0o711, exist_ok=True)
    (folder / "blobs" / "raw").mkdir(parents=True)
    (folder / "blobs").chmod(0o700)
    (folder / "blobs" / "raw" / "old.jsonl").write_text("{}\n")
    return folder


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # It ended just now.
        return []


def plain_environment() -> dict[str, str]:
    """Return the environment of a machine where nothing is set up."""
    own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**own, "PRICES_UPDATE": "off"}  # tests fetch nothing from outside


def make_clone(parent: Path) -> Path:
    """Create a folder with the checkout's files, data of its own and an installed environment."""
    clone = Path(tempfile.mkdtemp(dir=parent))
    clone.chmod(0o711)
    for path in ROOT.iterdir():
        if path.name not in {".venv", ".git", "var"}:
            (clone / path.name).symlink_to(path)
    (clone / ".venv").mkdir()
    for path in Path(sys.prefix).iterdir():
        (clone / ".venv" / path.name).symlink_to(path)
    for stamp in (".service-installed", ".dev-installed"):
        (clone / ".venv" / stamp).unlink(missing_ok=True)
        (clone / ".venv" / stamp).touch()
    return clone


def tallystick(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command on a data folder, in a fork; `Running` runs the real program."""
    return run_warm(("service", *arguments, "--data", str(folder)), plain_environment())
