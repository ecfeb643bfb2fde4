"""Forks, servers, task queues and loops: every process sends its own calls, once, and ends in time.

The programs are real ones, started as their users start them, with a stub vendor and a collector.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.collector import DEAD_DSN, Collector, Silent, refusing_dsn
from tests.client.environments import ROOT, plain_environment, run
from tests.client.test_delivery import wait_until
from tests.client.vendors import Vendors

CALL = """
import os, sys, time
import tallystick
import openai

def client(url=os.environ.get("VENDORS")):
    return openai.OpenAI(api_key="k", base_url=url + "/v1", max_retries=0)

def ask(tag, client=client):
    with tallystick.tag(tag):
        client().embeddings.create(model="text-embedding-3-small", input="x")
"""


@pytest.fixture(scope="module")
def vendors() -> Iterator[Vendors]:
    with Vendors() as vendors:
        yield vendors


def _run(program: str, collector: Collector, vendors: Vendors, *options: str) -> str:
    environment = {"SERVICE_DSN": collector.dsn, "VENDORS": vendors.url}
    return run(sys.executable, *options, "-c", CALL + program, **environment)


def _tags(collector: Collector) -> Counter[str]:
    assert collector.problems == []
    return Counter(record["tag"] for record in collector.records)


def test_a_program_sends_what_waits_when_it_ends(collector: Collector, vendors: Vendors) -> None:
    _run("tallystick.init(); ask('a'); ask('b')", collector, vendors)
    assert _tags(collector) == {"a": 1, "b": 1}


def test_a_forked_process_sends_its_own_calls_and_not_its_parents(
    collector: Collector, vendors: Vendors
) -> None:
    program = """
tallystick.init()
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
    _run(program, collector, vendors)
    assert _tags(collector) == {
        **{"before": 1, "after": 1},
        **{f"child {number}": 1 for number in range(3)},
    }


def test_a_stream_that_is_open_at_a_fork_counts_in_its_parent_alone(
    collector: Collector, vendors: Vendors
) -> None:
    program = """
tallystick.init(tag="stream")
import anthropic
claude = anthropic.Anthropic(api_key="k", base_url=os.environ["VENDORS"])
stream = claude.messages.create(model="m", max_tokens=5, messages=[], stream=True)
next(stream)
child = os.fork()
if not child:
    del stream
    tallystick.flush(1)
    sys.exit(0)
os.waitpid(child, 0)
"""
    _run(program, collector, vendors)
    assert _tags(collector) == {"stream": 1}


def test_workers_of_multiprocessing_send_before_they_end(
    collector: Collector, vendors: Vendors, tmp_path: Path
) -> None:
    program = """
import multiprocessing
tallystick.init()
ask("parent")
context = multiprocessing.get_context("fork")
workers = [context.Process(target=ask, args=(f"worker {n}",)) for n in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
    assert worker.exitcode == 0
"""
    _run(program, collector, vendors)
    assert _tags(collector) == {"parent": 1, **{f"worker {n}": 1 for n in range(3)}}


GUNICORN = """
import os
import tallystick
tallystick.init()
import openai
client = openai.OpenAI(api_key="k", base_url=os.environ["VENDORS"] + "/v1", max_retries=0)

def application(environ, start_response):
    with tallystick.tag(f"pid {os.getpid()}"):
        client.embeddings.create(model="text-embedding-3-small", input="x")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""


@pytest.mark.parametrize("worker", ["gthread", "sync", "gevent"])
def test_gunicorn_with_preload_sends_of_every_worker(
    worker: str, collector: Collector, vendors: Vendors, tmp_path: Path
) -> None:
    (tmp_path / "served.py").write_text(GUNICORN)
    socket = tmp_path / "socket"
    command = ["-m", "gunicorn", "--preload", "--workers=2", f"--worker-class={worker}"]
    process = subprocess.Popen(
        [sys.executable, *command, f"--bind=unix:{socket}", "--chdir", str(tmp_path), "served"],
        env=plain_environment(SERVICE_DSN=collector.dsn, VENDORS=vendors.url),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        wait_until(socket.exists, 20)
        pids = [_get(socket) for _ in range(12)]
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)
    assert _tags(collector) == Counter(f"pid {pid}" for pid in pids)
    assert b"Traceback" not in said, said.decode()


def _get(socket: Path) -> str:
    command = [
        "curl",
        "-sS",
        "--max-time",
        "20",
        "--retry",
        "5",
        "--retry-all-errors",
        "--unix-socket",
        str(socket),
    ]
    got = subprocess.run([*command, "http://x/"], capture_output=True, text=True, check=True)
    return got.stdout


CELERY = """
import os
import tallystick
tallystick.init()
import celery
import openai
app = celery.Celery("tasks", broker=os.environ["BROKER"])
app.conf.broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue"}
app.conf.control_folder = "control"
app.conf.worker_hijack_root_logger = False

@app.task
def ask(number):
    client = openai.OpenAI(api_key="k", base_url=os.environ["VENDORS"] + "/v1", max_retries=0)
    with tallystick.tag(f"task {number}"):
        client.embeddings.create(model="text-embedding-3-small", input="x")
    open(f"done-{number}", "w").close()
"""


def test_celery_with_prefork_sends_of_every_child(
    collector: Collector, vendors: Vendors, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text(CELERY)
    (tmp_path / "queue").mkdir()
    environment = plain_environment(
        SERVICE_DSN=collector.dsn, VENDORS=vendors.url, BROKER="filesystem://", C_FORCE_ROOT="1"
    )
    command = ["-m", "celery", "-A", "tasks", "worker", "--pool=prefork", "--concurrency=2"]
    worker = subprocess.Popen(
        [sys.executable, *command, "--without-gossip", "--without-mingle", "--loglevel=error"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        send = "import tasks; [tasks.ask.delay(number) for number in range(6)]"
        subprocess.run([sys.executable, "-c", send], cwd=tmp_path, env=environment, check=True)
        wait_until(lambda: len(list(tmp_path.glob("done-*"))) == 6, 60)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)
    assert _tags(collector) == Counter(f"task {number}" for number in range(6))


ASYNC = """
import asyncio
tallystick.init()

async def ask_async(tag, client):
    with tallystick.tag(tag):
        await asyncio.sleep(0)
        await client.embeddings.create(model="text-embedding-3-small", input="x")

async def main():
    async with openai.AsyncOpenAI(
        api_key="k", base_url=os.environ["VENDORS"] + "/v1", max_retries=0
    ) as client:
        await asyncio.gather(*(ask_async(f"task {n}", client) for n in range(20)))
        await asyncio.to_thread(ask, "thread")

"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_loop_keeps_the_tags_of_its_tasks_apart(
    loop: str, collector: Collector, vendors: Vendors
) -> None:
    _run(ASYNC + f"import {loop}\n{loop}.run(main())", collector, vendors)
    assert _tags(collector) == {**{f"task {n}": 1 for n in range(20)}, "thread": 1}


GEVENT = """
import gevent
tallystick.init()
jobs = [gevent.spawn(ask, f"greenlet {n}") for n in range(10)]
gevent.joinall(jobs, raise_error=True)
assert tallystick.flush(5)
gevent.spawn(ask, "last").join()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_gevent_may_patch_before_or_after(
    when: str, collector: Collector, vendors: Vendors
) -> None:
    patch = "from gevent import monkey; monkey.patch_all()\n"
    program = patch + CALL + GEVENT if when == "before" else (
        "import tallystick; tallystick.init()\n" + patch + CALL + GEVENT
    )  # fmt: skip
    run(sys.executable, "-c", program, SERVICE_DSN=collector.dsn, VENDORS=vendors.url)
    assert _tags(collector) == {**{f"greenlet {n}": 1 for n in range(10)}, "last": 1}


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


@pytest.mark.parametrize("server", ["dead", "refusing", "silent"])
@pytest.mark.parametrize(
    ("records", "is_sending"), [(0, False), (3, False), (3, True), (4_000, True)]
)
def test_an_exit_waits_a_quarter_of_a_second_at_most(
    server: str, records: int, is_sending: bool
) -> None:
    program = EXIT.format(records=records, is_sending=is_sending)
    with Silent() as silent:
        dsn = {"dead": DEAD_DSN, "refusing": refusing_dsn(), "silent": silent.dsn}[server]
        took = min(_exit_seconds(program, dsn) for _ in range(3))
        alone = min(_exit_seconds(program, "") for _ in range(3))
    assert took - alone <= 0.25


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
    collector: Collector, vendors: Vendors
) -> None:
    program = """
import atexit, threading
def late():
    ask("late")
tallystick.init()
atexit.register(late)
threading.Thread(target=lambda: (time.sleep(0.2), ask("thread"))).start()
"""
    assert _run(program, collector, vendors) == ""
    assert _tags(collector)["thread"] == 1


def test_a_child_that_is_killed_takes_nobody_with_it(
    collector: Collector, vendors: Vendors
) -> None:
    program = """
import signal
tallystick.init()
child = os.fork()
if not child:
    ask("lost")
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
ask("kept")
"""
    _run(program, collector, vendors)
    assert _tags(collector) == {"kept": 1}


def test_a_platform_without_fork_is_no_trouble(collector: Collector, vendors: Vendors) -> None:
    _run("del os.register_at_fork; tallystick.init(); ask('a')", collector, vendors)
    assert _tags(collector) == {"a": 1}
    assert hasattr(os, "register_at_fork")
