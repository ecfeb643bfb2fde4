"""Servers and task queues that fork their workers: each of them sends its own calls, once."""

import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.collector import Collector
from tests.client.environments import plain_environment
from tests.client.programs import tags_of
from tests.client.provider_stub import ProviderStub
from tests.worker.support.promises import STRESS_SECONDS, Note, sampled
from tests.worker.support.waiting import wait_until

# On a machine that does much else; alone each takes some seconds.
PATIENCE_SECONDS = 90
TERMINATIONS = 10
CALLS = 10

GUNICORN = """
import os
import tallystick
tallystick.init(exit_timeout=10)
import openai
client = openai.OpenAI(api_key="k", base_url=os.environ["VENDORS"] + "/v1", max_retries=0)

def application(environ, start_response):
    with tallystick.tag(f"pid {os.getpid()}"):
        client.embeddings.create(model="text-embedding-3-small", input="x")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""


@contextmanager
def _running(
    folder: Path, environment: dict[str, str], *command: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A program that is asked to end at the end, and has to within a time."""
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()


@pytest.mark.parametrize("worker", sampled(["gthread", "sync", "gevent"], 3))
def test_gunicorn_with_preload_sends_from_every_worker(
    worker: str, collector: Collector, provider_stub: ProviderStub, tmp_path: Path
) -> None:
    (tmp_path / "served.py").write_text(GUNICORN)
    address = tmp_path / "socket"
    environment = plain_environment(SERVICE_DSN=collector.dsn, VENDORS=provider_stub.url)
    options = ("--preload", "--workers=2", f"--worker-class={worker}", "--no-control-socket")
    with _running(tmp_path, environment, "gunicorn", *options, f"--bind=unix:{address}", "served"):
        wait_until(lambda: _is_open(address), PATIENCE_SECONDS)
        pids: list[str] = []
        while len(set(pids)) < 2:
            pids.append(_get(address))
    assert tags_of(collector) == Counter(f"pid {pid}" for pid in pids)
    assert "Traceback" not in (tmp_path / "said").read_text()


ASGI = """
import os
import tallystick
tallystick.init(exit_timeout=10)
import openai
client = openai.AsyncOpenAI(api_key="k", base_url=os.environ["VENDORS"] + "/v1", max_retries=0)

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        with tallystick.tag("shutdown"):
            await client.embeddings.create(model="text-embedding-3-small", input="x")
        await send({"type": "lifespan.shutdown.complete"})
        return
    with tallystick.tag(f"pid {os.getpid()}"):
        await client.embeddings.create(model="text-embedding-3-small", input="x")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
"""
ASGI_SERVERS = {
    "uvicorn": ("uvicorn", "served:application", "--uds={address}"),
    "workers": ("uvicorn", "served:application", "--uds={address}", "--workers=2"),
    "gunicorn": (
        *("gunicorn", "served:application", "--bind=unix:{address}", "--no-control-socket"),
        "--worker-class=uvicorn_worker.UvicornWorker",
    ),
}


@pytest.mark.parametrize("server", sampled(ASGI_SERVERS, 3))
def test_uvicorn_sends_what_is_queued_when_it_is_terminated(
    server: str, provider_stub: ProviderStub, tmp_path: Path
) -> None:
    """It ends its process by SIGTERM, which runs nothing that `atexit` has."""
    with Collector() as collector:
        pids = _terminated(server, collector, provider_stub, tmp_path)
    tags = tags_of(collector)
    assert tags.pop("shutdown") == (2 if server == "workers" else 1)
    assert tags == Counter(f"pid {pid}" for pid in pids)
    assert "Traceback" not in (tmp_path / "said").read_text()


@pytest.mark.stress
@pytest.mark.timeout(STRESS_SECONDS)
@pytest.mark.parametrize("server", ASGI_SERVERS)
def test_every_record_of_a_terminated_server_arrives(
    server: str, provider_stub: ProviderStub, tmp_path: Path, note: Note
) -> None:
    lost = 0
    for number in range(TERMINATIONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Collector() as collector:
            pids = _terminated(server, collector, provider_stub, folder)
        lost += len(pids) - sum(tags_of(collector)[f"pid {pid}"] for pid in set(pids))
    note(f"records of a terminated server, {server}", TERMINATIONS * CALLS, lost)
    assert lost == 0


def _terminated(
    server: str, collector: Collector, provider_stub: ProviderStub, folder: Path
) -> list[str]:
    """Run a server, make calls, end it by SIGTERM, and return the process of each call."""
    (folder / "served.py").write_text(ASGI)
    address = folder / "socket"
    environment = plain_environment(SERVICE_DSN=collector.dsn, VENDORS=provider_stub.url)
    command = [part.format(address=address) for part in ASGI_SERVERS[server]]
    with _running(folder, environment, *command):
        wait_until(lambda: address.exists() and _is_open(address), PATIENCE_SECONDS)
        return [_get(address) for _ in range(CALLS)]


def _is_open(address: Path) -> bool:
    """Check for a server that listens, which follows the file of its socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(address)) == 0


def _get(address: Path) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(str(address))
        connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        with connection.makefile("rb") as answer:
            return answer.read().decode().rpartition("\r\n\r\n")[2]


QUEUE = """
import os
import celery
app = celery.Celery("tasks", broker=os.environ["BROKER"])
app.conf.worker_hijack_root_logger = False
"""
TASKS = """
import openai

@app.task
def ask(number):
    client = openai.OpenAI(api_key="k", base_url=os.environ["VENDORS"] + "/v1", max_retries=0)
    with tallystick.tag(f"task {number}"):
        client.embeddings.create(model="text-embedding-3-small", input="x")
    open(f"done-{number}", "w").close()
"""
IN_EACH_CHILD = """
from celery.signals import worker_process_init

@worker_process_init.connect
def begin(**told):
    tallystick.init(exit_timeout=10)
"""
PROGRAMS = {
    "in the parent": "import tallystick\ntallystick.init(exit_timeout=10)" + QUEUE + TASKS,
    "in each child": "import tallystick" + QUEUE + IN_EACH_CHILD + TASKS,
}


@pytest.mark.stress
@pytest.mark.parametrize("turned_on", PROGRAMS)
def test_celery_with_prefork_sends_from_every_child(
    turned_on: str,
    collector: Collector,
    provider_stub: ProviderStub,
    redis_url: str,
    tmp_path: Path,
) -> None:
    """By default, `test_processes.py` forks, and gunicorn does above."""
    (tmp_path / "tasks.py").write_text(PROGRAMS[turned_on])
    broker = redis_url.partition("?")[0].replace("unix:", "redis+socket:") + "?virtual_host=9"
    environment = plain_environment(
        SERVICE_DSN=collector.dsn, VENDORS=provider_stub.url, BROKER=broker, C_FORCE_ROOT="1"
    )
    send = QUEUE + "for number in range(6): app.send_task('tasks.ask', (number,))"
    subprocess.run([sys.executable, "-c", send], cwd=tmp_path, env=environment, check=True)
    options = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=error")
    command = ("celery", "-A", "tasks", "worker", "--pool=prefork", "--concurrency=2", *options)
    with _running(tmp_path, environment, *command):
        wait_until(lambda: len(list(tmp_path.glob("done-*"))) == 6, PATIENCE_SECONDS)
    assert tags_of(collector) == Counter(f"task {number}" for number in range(6))
