"""The end of a process: in time whatever the server does, and without a word."""

import subprocess
import sys
import time
from functools import cache

import pytest

from tests.client.collector import DEAD_DSN, Collector, Silent, refusing_dsn
from tests.client.environments import ROOT, plain_environment
from tests.client.programs import run_program, tags_of
from tests.client.provider_stub import ProviderStub
from tests.worker.support.promises import sampled

# The best counts, for what else the machine does holds up every program.
TRIES = 6
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


@pytest.mark.parametrize("server", sampled(["silent", "dead", "refusing"], 3))
@pytest.mark.parametrize(
    ("records", "is_sending"), [(0, False), (3, False), (3, True), (4_000, True)]
)
def test_an_exit_waits_a_quarter_of_a_second_at_most(
    server: str, records: int, is_sending: bool
) -> None:
    program = EXIT.format(records=records, is_sending=is_sending)
    with Silent() as silent:
        dsn = {"dead": DEAD_DSN, "refusing": refusing_dsn(), "silent": silent.dsn}[server]
        allowed = _least_exit_seconds(program) + 0.25
        assert any(_exit_seconds(program, dsn) <= allowed for _ in range(3 * TRIES))


@cache
def _least_exit_seconds(program: str) -> float:
    """Without the client."""
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
tallystick.init()
atexit.register(late)
threading.Thread(target=lambda: (time.sleep(0.2), ask("thread"))).start()
"""
    assert run_program(program, collector, provider_stub) == ""
    assert tags_of(collector)["thread"] == 1
