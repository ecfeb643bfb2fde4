"""Processes that are forked off at the worst moment, or by what is imported later."""

import sys

import pytest

from tallystick import client, ending
from tests.client.collector import Collector
from tests.client.environments import interpreters, run
from tests.client.offline import capturing
from tests.client.programs import tags_of
from tests.client.test_delivery import RECORD, _delivery, _Sender
from tests.worker.support.promises import sampled


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


def test_turned_on_again_process_libraries_are_not_hooked_again(collector: Collector) -> None:
    forks = []
    for _ in range(2):
        with capturing(collector.dsn):
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


NO_WARNING = """
import os, sys, time, warnings
import tallystick
tallystick.init()

def count():
    tallystick.record(model="m", prompt_tokens=1, completion_tokens=1, tag="parent")

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        count()
        assert tallystick.flush(10)
        if not os.fork():
            os._exit(0)
        os.wait()
assert [str(warning.message) for warning in caught] == []
count()
if not os.fork():  # what waits to be sent is not given up for a warning
    os._exit(0)
os.wait()
assert tallystick.flush(10)
assert tallystick.stats()["sent"] == 4
"""
NEWER = [version for version in interpreters() if version not in ("3.9", "3.10", "3.11")]


@pytest.mark.parametrize("version", sampled(NEWER, 2))
def test_a_process_that_forks_is_not_warned_of_an_idle_thread(
    version: str, collector: Collector
) -> None:
    run(interpreters()[version], "-c", NO_WARNING, SERVICE_DSN=collector.dsn)
    assert tags_of(collector) == {"parent": 4}


def test_a_thread_that_got_work_meanwhile_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    delivery = _delivery(_Sender(lambda: None))
    ended = ending.before_fork
    ended()  # while capture is off
    delivery.rest()  # before there is a thread
    delivery.start()
    thread = delivery._thread
    has_work = [False, True, False, False, True]
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "_has_work", lambda: has_work.pop(0))
        delivery.rest()
        assert delivery._thread is thread  # it is still alive
        delivery.rest()
        assert delivery._thread is not thread
    assert has_work == []
    delivery.put(RECORD)
    assert delivery.flush(5)
    delivery.rest()
    assert delivery._thread is None
    delivery.put(RECORD)
    assert delivery.flush(5)
    assert delivery.close(5)
