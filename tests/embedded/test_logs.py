"""What supervised programs print is in log files of bounded size, each line once and whole."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.operations.local.handle import Program, Supervisor
from service.operations.local.supervisor import LONGEST_LOG_BYTES, OLDER_LOGS
from tests.embedded.processes import wait_until

# Prints numbered lines while processes that inherit its output do the same, and then half a line.
_PRINT = """
import signal, subprocess, sys
me, lines, size, helpers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
command = [sys.executable, *sys.orig_argv[1:3]]
others = [
    subprocess.Popen([*command, f"{me}-{number}", str(lines), str(size), "0"])
    for number in range(helpers)
]
for number in range(lines):
    print(f"{me} {number} ".ljust(size, "x"), flush=True)
for other in others:
    other.wait()
if "-" not in me:
    print(f"{me} has printed all")
    print(end=f"{me} stops", flush=True)
    signal.pause()
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    started = Supervisor(tmp_path)
    yield started
    started.close()


def print_lines(folder: Path, name: str, lines: int, size: int, helpers: int) -> Program:
    arguments = (name, str(lines), str(size), str(helpers))
    return Program(
        name=name,
        command=(sys.executable, "-c", _PRINT, *arguments),
        folder=str(folder),
        environment={},
    )


def logs_of(folder: Path, name: str) -> list[Path]:
    """Return the logs of a program, oldest first."""
    found = folder.glob(f"{name}.log*")
    return sorted(found, key=lambda path: -int(path.suffix[1:]) if path.suffix != ".log" else 0)


def last_lines(log: Path) -> str:
    return log.read_text()[-1_000:] if log.exists() else ""


def test_logs_rotate_while_programs_print_and_no_line_is_lost_or_cut(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    lines, size, helpers = 1_500, 3_999, 2  # 18 MB
    supervisor.start(print_lines(tmp_path, "busy", lines, size, helpers))
    assert wait_until(lambda: "has printed all" in last_lines(tmp_path / "busy.log"))
    supervisor.stop("busy")
    logs = logs_of(tmp_path, "busy")
    assert len(logs) == 2
    assert all(log.stat().st_size <= LONGEST_LOG_BYTES for log in logs)
    found = [line for log in logs for line in log.read_text().splitlines()]
    names = ("busy", *(f"busy-{number}" for number in range(helpers)))
    expected = [f"{name} {number} ".ljust(size, "x") for name in names for number in range(lines)]
    assert found[-2:] == ["busy has printed all", "busy stops"]
    del found[-2:]
    assert sorted(found) == sorted(expected)


def test_a_program_that_never_stops_printing_keeps_a_bounded_number_of_logs(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """The oldest is deleted; the others follow one another."""
    for number in range(1, OLDER_LOGS + 1):
        (tmp_path / f"long.log.{number}").write_text(f"old {number}\n")
    (tmp_path / "long.log").write_bytes(b"old\n" * (LONGEST_LOG_BYTES // 4))
    supervisor.start(print_lines(tmp_path, "long", 1, 10, 0))
    assert wait_until(lambda: "has printed all" in last_lines(tmp_path / "long.log"))
    logs = logs_of(tmp_path, "long")
    assert len(logs) == OLDER_LOGS + 1
    assert logs[0].read_text() == f"old {OLDER_LOGS - 1}\n"
    assert logs[-1].read_text().splitlines() == ["long 0 xxx", "long has printed all"]


def test_programs_print_while_another_one_takes_long_to_stop(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    stubborn = Program(
        name="stubborn",
        command=(sys.executable, "-c", _STUBBORN),
        folder=str(tmp_path),
        environment={},
        stop_seconds=20.0,
    )
    supervisor.start(stubborn)
    assert wait_until(lambda: (tmp_path / "stubborn.log").exists())
    supervisor.start(print_lines(tmp_path, "busy", 1_000, 1_999, 0))
    supervisor.stop("stubborn")
    assert (tmp_path / "stubborn.log").read_text().splitlines()[-1] == "stopped"


# When it is asked to stop, it waits for another program and prints more than a pipe has room for.
_STUBBORN = """
import pathlib, signal, sys, time
def stop(*_):
    busy = pathlib.Path("busy.log")
    while not busy.exists() or "busy 999 " not in busy.read_text():
        time.sleep(0.05)
    print("x" * 2_000_000)
    print("stopped")
    sys.exit()
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    signal.pause()
"""
