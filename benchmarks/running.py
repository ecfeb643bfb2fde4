"""A service or a program that runs for one benchmark, the machine, and tables against limits."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Timer
from typing import Final

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks import usage
from service.operations.local.stack import Stack

BYTES_PER_MB: Final = 1_000_000
SAMPLE_SECONDS: Final = 0.02
MACHINE_ROWS: Final = 1_000_000
MACHINE_RUNS: Final = 5
# Programs don't inherit these. Without bytecode, every process would compile the code again, which
# installed programs don't. And Polars sets how it frees memory, when a benchmark imports it: an
# audit of 1,000,000 lines would take 600 MB instead of the 470 with the command's own setting.
NOT_INHERITED: Final = ("PYTHONDONTWRITEBYTECODE", "_RJEM_MALLOC_CONF")
# What other programs are measured beside; its argument is the path of a log in JSON Lines.
DUCKDB: Final = (
    "-c",
    "import duckdb, sys\n"
    'duckdb.sql(f"""SELECT model, tag, count(*), sum(usage.prompt_tokens),\n'
    "sum(usage.completion_tokens), sum(usage.prompt_tokens_details.cached_tokens)\n"
    "FROM read_json('{sys.argv[1]}', format='newline_delimited') GROUP BY ALL\"\"\").fetchall()",
)


@dataclass(frozen=True)
class Measured:
    what: str
    beside: str
    value: str
    bar: str
    is_met: bool


@dataclass(frozen=True)
class Run:
    """One run of a process; its processor time is since its start, without that of Spark's Java."""

    seconds: float
    processor_seconds: float
    peak_mb: float
    output: bytes


class TooLongError(Exception):
    """A program was stopped at its time limit."""


class FailedError(SystemExit):
    """A program ended with a status other than 0, or by a signal, which is negative."""

    def __init__(self, command: tuple[str, ...], status: int) -> None:
        super().__init__(f"{command[:2]} failed with status {status}")
        self.status = status


@cache
def describe_machine() -> str:
    """Return a line on the machine, so that figures of different machines can be compared.

    DuckDB's time is the best of a few whole processes.
    """
    log = usage.json_lines(MACHINE_ROWS)
    seconds = min(child(DUCKDB, log).seconds for _ in range(MACHINE_RUNS))
    return (
        f"machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}; DuckDB {version('duckdb')} reads and sums "
        f"{MACHINE_ROWS:,} calls of JSON Lines in {seconds:.2f} s"
    )


def print_machine() -> None:
    Console().print(describe_machine(), soft_wrap=True, highlight=False)


@contextmanager
def running_service(name: str, settings: Mapping[str, str]) -> Iterator[Stack]:
    """Run the whole service with these settings, in a folder that is deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"tallystick-{name}-"))
    folder.chmod(0o711)  # PostgreSQL runs as another user where this runs as root
    own = {"PATH": os.environ["PATH"], "LOG_LEVEL": "WARNING", **settings}
    try:
        with Stack(folder / "var", None, own) as stack:
            yield stack
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def print_table(title: str, results: list[Measured]) -> None:
    print_machine()
    table = Table(title=title)
    for heading in ("what", "beside it", "measured", "bar", "met"):
        table.add_column(heading)
    for one in results:
        table.add_row(one.what, one.beside, one.value, one.bar, "yes" if one.is_met else "no")
    Console(width=120).print(table)


def best(command: tuple[str, ...], file: Path, runs: int) -> Run:
    """Return the fastest run, and the memory of another run, because sampling slows a run down."""
    quickest = min((child(command, file) for _ in range(runs)), key=lambda run: run.seconds)
    watched = child(command, file, watch=True)
    return replace(quickest, peak_mb=watched.peak_mb)


def child(
    command: tuple[str, ...], file: Path, *, watch: bool = False, limit_seconds: float | None = None
) -> Run:
    """Run the program; when watching, sample the memory of its process tree.

    Raises `TooLongError` for a program that takes longer than its limit, and `FailedError`.
    """
    own = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    call = [sys.executable, *command, str(file)]
    began = time.perf_counter()
    with (
        subprocess.Popen(call, stdout=subprocess.PIPE, env=own) as process,
        _killed_after(limit_seconds, process),
    ):
        peak = watch_memory(process.pid) if watch else 0
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stdout is not None
        output = process.stdout.read()
    if limit_seconds is not None and seconds >= limit_seconds:
        raise TooLongError
    if process.returncode != 0:
        raise FailedError(command, process.returncode)
    # The kernel's peak is exact but excludes children; it is in kibibytes.
    peak_mb = max(peak, used.ru_maxrss * 1_024) / BYTES_PER_MB
    return Run(seconds, used.ru_utime + used.ru_stime, peak_mb, output)


@contextmanager
def _killed_after(seconds: float | None, process: subprocess.Popen[bytes]) -> Iterator[None]:
    if seconds is None:
        yield
        return
    timer = Timer(seconds, os.kill, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def watch_memory(pid: int) -> int:
    """Return the peak memory of the process and its descendants, until it ends."""
    peak = 0
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        peak = max(peak, _memory(pid))
        time.sleep(SAMPLE_SECONDS)
    return peak


def _memory(pid: int) -> int:
    """Return the memory of the process and its descendants; shared memory counts once."""
    try:
        family = [(head := psutil.Process(pid)), *head.children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(_share_of_memory(process) for process in family)


def _share_of_memory(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
    except psutil.Error:
        return 0
    return int(getattr(memory, "pss", memory.rss))
