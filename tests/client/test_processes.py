"""Forks and worker processes: each sends its own calls, once, and ends in time."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest

from tests.client.collector import Collector
from tests.client.environments import plain_environment, run
from tests.client.programs import run_program, tags_of
from tests.client.provider_stub import ProviderStub
from tests.worker.support.promises import sampled
from tests.worker.support.waiting import wait_until


def test_a_forked_process_sends_its_own_calls_and_not_its_parents(
    collector: Collector, provider_stub: ProviderStub
) -> None:
    program = """
tallystick.init(exit_timeout=10)
ask("before")
children = []
for number in range(3):
    child = os.fork()
    if not child:
        assert tallystick.stats()["captured"] == 0
        ask(f"child {number}")
        sys.exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
ask("after")
"""
    run_program(program, collector, provider_stub)
    assert tags_of(collector) == {
        **{"before": 1, "after": 1},
        **{f"child {number}": 1 for number in range(3)},
    }


WORKERS = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
import tallystick

method, where = sys.argv[1:]
if where == "by the module":
    tallystick.init(exit_timeout=10)

def count(number):
    if where == "by each worker":
        tallystick.init(exit_timeout=10)
    assert tallystick.record(
        model="m", prompt_tokens=1, completion_tokens=1, tag=f"worker {number}"
    )

if __name__ == "__main__":
    context = multiprocessing.get_context(method)
    if where == "by the pool":
        start = partial(tallystick.init, exit_timeout=10)
        with ProcessPoolExecutor(2, context, initializer=start) as pool:
            list(pool.map(count, range(2)))
    else:
        workers = [context.Process(target=count, args=(number,)) for number in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
"""
PLACES = ("by the module", "by each worker", "by the pool")


# Of nine, one for each method and one for each place.
@pytest.mark.parametrize(
    "way", sampled(product(PLACES, multiprocessing.get_all_start_methods()), 4)
)
def test_workers_of_multiprocessing_send_before_they_end(
    way: tuple[str, str], collector: Collector, tmp_path: Path
) -> None:
    where, method = way
    program = tmp_path / "workers.py"
    program.write_text(WORKERS)
    run(sys.executable, str(program), method, where, SERVICE_DSN=collector.dsn)
    assert tags_of(collector) == {"worker 0": 1, "worker 1": 1}


def test_a_stopped_process_sends_after_it_continues(collector: Collector) -> None:
    """As serverless platforms do between two requests, for longer than the interval."""
    program = """
import time, tallystick
tallystick.init(flush_interval=0.3)
tallystick.record(model="m", prompt_tokens=1, completion_tokens=1, tag="before")
print("counted", flush=True)
time.sleep(60)
"""
    environment = plain_environment(SERVICE_DSN=collector.dsn)
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"counted\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        assert tags_of(collector) == {}
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: tags_of(collector) == {"before": 1}, 20)
        process.kill()


def test_a_killed_child_does_not_stop_the_others(collector: Collector) -> None:
    program = """
import os, signal
import tallystick
tallystick.init(exit_timeout=10)
call = {"model": "m", "prompt_tokens": 1, "completion_tokens": 1}
child = os.fork()
if not child:
    tallystick.record(**call, tag="lost")
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
tallystick.record(**call, tag="kept")
"""
    run(sys.executable, "-c", program, SERVICE_DSN=collector.dsn)
    assert tags_of(collector) == {"kept": 1}


def test_a_platform_without_fork_is_no_trouble(collector: Collector) -> None:
    program = """
import os
import random, threading  # which register, too, where there is `os.fork`
import tallystick
del os.register_at_fork
tallystick.init(exit_timeout=10)
tallystick.record(model="m", prompt_tokens=1, completion_tokens=1, tag="a")
"""
    run(sys.executable, "-c", program, SERVICE_DSN=collector.dsn)
    assert tags_of(collector) == {"a": 1}
    assert hasattr(os, "register_at_fork")
