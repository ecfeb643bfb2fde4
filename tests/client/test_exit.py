"""The end of a process: in time whatever the server does, and without a word."""

import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from tests.client.collector import DEAD_DSN, Collector, Silent, refusing_dsn
from tests.client.environments import ROOT, plain_environment, run
from tests.client.programs import run_program, tags_of
from tests.client.provider_stub import ProviderStub
from tests.worker.support.promises import sampled

# The best counts, for what else the machine does holds up every program.
TRIES = 6
SERVERS = ["silent", "dead", "refusing"]
EXIT = """
import sys, time
import tallystick
tallystick.init()
if {records}:
    for number in range({records}):
        tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
    if {is_sending}:
        tallystick.flush(0.05)
sys.stdout.write(repr(time.time()))
sys.stdout.flush()
"""


@pytest.mark.parametrize(
    ("server", "more_seconds"),
    [("silent", 2.0), *(pytest.param(server, 0.0, marks=pytest.mark.stress) for server in SERVERS)],
)
@pytest.mark.parametrize(
    ("records", "is_sending"), [(0, False), (3, False), (3, True), (4_000, True)]
)
def test_an_exit_waits_a_quarter_of_a_second_at_most(
    server: str, more_seconds: float, records: int, is_sending: bool
) -> None:
    """Beside other tests, less than half of the five seconds that a silent server is waited for."""
    program = EXIT.format(records=records, is_sending=is_sending)
    with Silent() as silent:
        dsn = {"dead": DEAD_DSN, "refusing": refusing_dsn(), "silent": silent.dsn}[server]
        allowed = _least_exit_seconds() + 0.25 + more_seconds
        assert any(_exit_seconds(program, dsn) <= allowed for _ in range(3 * TRIES))


@cache
def _least_exit_seconds() -> float:
    """Without the client and without records, which can only take longer."""
    program = EXIT.format(records=0, is_sending=False)
    return min(_exit_seconds(program, "") for _ in range(TRIES))


def _exit_seconds(program: str, dsn: str) -> float:
    """From the program's last line to the end of its process; it says nothing but the time."""
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env=plain_environment(SERVICE_DSN=dsn),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    ended = time.time()
    assert (finished.returncode, finished.stderr) == (0, "")
    return ended - float(finished.stdout)


def test_a_thread_that_calls_while_the_interpreter_ends_harms_nothing(
    collector: Collector, provider_stub: ProviderStub
) -> None:
    program = """
import atexit, threading
def late():
    ask("late")
tallystick.init(exit_timeout=10)
atexit.register(late)
threading.Thread(target=lambda: (time.sleep(0.2), ask("thread"))).start()
"""
    assert run_program(program, collector, provider_stub) == ""
    assert tags_of(collector)["thread"] == 1


# The exits below may take longer than a quarter of a second, or a busy machine would lose records.
TERMINATED = """
import os, signal, sys, time
import tallystick
tallystick.init(exit_timeout=10)
for number in range(10):
    tallystick.record(model="m", prompt_tokens=1, completion_tokens=1, tag="queued")
{more}
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


def test_a_script_that_is_terminated_sends_its_queue_first(collector: Collector) -> None:
    finished = _run_terminated("", collector)
    assert (finished.returncode, finished.stderr) == (-signal.SIGTERM, "")
    assert tags_of(collector) == {"queued": 10}


def test_a_handler_of_the_programs_own_stays_in_charge(collector: Collector) -> None:
    own = "signal.signal(signal.SIGTERM, lambda *arguments: sys.exit(3))"
    assert _run_terminated(own, collector).returncode == 3
    assert tags_of(collector) == {"queued": 10}  # by the exit of the interpreter


def test_a_closed_client_leaves_no_handler(collector: Collector) -> None:
    assert _run_terminated("tallystick.close()", collector).returncode == -signal.SIGTERM
    check = "tallystick.close()\nsys.exit(signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)"
    assert _run_terminated(check, collector).returncode == 0


POOL = """
import multiprocessing, sys
import tallystick
tallystick.init(exit_timeout=10)

def work(number):
    with tallystick.tag("pool"):
        tallystick.record(model="m", prompt_tokens=number, completion_tokens=1)

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:  # terminates its workers
        pool.map(work, range(10))
"""


@pytest.mark.parametrize("way", sampled(["fork", "spawn", "forkserver"], 3))
def test_a_pool_that_terminates_its_workers_loses_nothing(
    way: str, collector: Collector, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(POOL)
    run(sys.executable, str(program), way, SERVICE_DSN=collector.dsn)
    assert sorted(record["prompt_tokens"] for record in collector.records) == list(range(10))


def test_an_exit_may_wait_for_as_long_as_the_program_allows(collector: Collector) -> None:
    program = EXIT.format(records=3, is_sending=False)
    with Silent() as silent:
        longer = program.replace("init()", "init(exit_timeout=1.0)")
        assert _exit_seconds(longer, silent.dsn) >= 0.9


def _run_terminated(more: str, collector: Collector) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", TERMINATED.format(more=more)],
        env=plain_environment(SERVICE_DSN=collector.dsn),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
