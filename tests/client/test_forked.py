"""Processes that are forked off at the worst moment, or by what is imported later."""

import sys

import pytest

from tallystick import client
from tests.client.collector import Collector
from tests.client.environments import run
from tests.client.offline import capturing
from tests.client.programs import tags_of
from tests.client.test_delivery import RECORD, _delivery, _Sender


def test_a_process_forked_off_while_the_thread_was_being_started_has_its_own() -> None:
    delivery = _delivery(_Sender(lambda: None))
    delivery._starting.acquire()
    delivery.reset()
    delivery.put(RECORD)
    assert delivery.flush(5)
    delivery.close(5)


def test_a_process_forked_off_while_it_was_being_turned_on_can_be_turned_on() -> None:
    client._starting.acquire()
    client._renew()
    assert not client._starting.locked()


LATER = """
import sys
import tallystick
tallystick.init()
assert "multiprocessing.util" not in sys.modules
import multiprocessing

def count():
    tallystick.record(model="m", prompt_tokens=1, completion_tokens=1, tag="worker")

worker = multiprocessing.get_context("fork").Process(target=count)
worker.start()
worker.join()
"""


def test_libraries_that_fork_may_be_imported_later(collector: Collector) -> None:
    run(sys.executable, "-c", LATER, SERVICE_DSN=collector.dsn)
    assert tags_of(collector) == {"worker": 1}


def test_turned_on_again_process_libraries_are_not_hooked_again(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    forks = []
    for _ in range(2):
        with capturing(monkeypatch, collector.dsn):
            forks.append(client._forks)
    assert forks[0] is forks[1]


FORKED_GREENLET = """
from gevent import monkey
monkey.patch_all()
import os, sys, time
import tallystick
tallystick.init(flush_interval=0.3)

def count(tag):
    tallystick.record(model="m", prompt_tokens=1, completion_tokens=1, tag=tag)

count("parent")
assert tallystick.flush(5)
child = os.fork()
if not child:
    time.sleep(1)
    count("child")
    assert tallystick.flush(5)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_greenlet_does_nothing(collector: Collector) -> None:
    """What gevent has in place of a thread goes on in the child."""
    run(sys.executable, "-c", FORKED_GREENLET, SERVICE_DSN=collector.dsn)
    assert tags_of(collector) == {"parent": 1, "child": 1}
