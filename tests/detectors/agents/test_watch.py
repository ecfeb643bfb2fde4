"""`tallystick watch` loses and repeats no call, however often it is killed; and its commands."""

import gzip
import json
import os
import random
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from benchmarks.agent_sessions import Billed, write_sessions
from detectors.agents.folders import find_sources
from detectors.agents.ledger import Ledger
from detectors.agents.sending import Destination
from detectors.agents.watching import Watcher
from tests.worker.support.promises import at_a_fortieth, scaled

KILLS: Final = 1_000
LINES: Final = 6_000  # bytes that a file grows by


class Service(ThreadingHTTPServer):
    """Takes batches as the service does: a key once. `trouble` is the share that goes wrong."""

    daemon_threads = True

    def __init__(self, trouble: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.random = random.Random(11)
        self.trouble = trouble
        self.answer = 201
        self.batches: dict[str, list[dict[str, Any]]] = {}
        self.requests = 0
        self.thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def destination(self) -> Destination:
        return Destination(f"http://127.0.0.1:{self.server_port}/api/v2/ingest", "ik_1")

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for batch in self.batches.values() for record in batch]

    def handle_error(self, *_: object) -> None:  # of clients that were killed
        pass


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        service = self.server
        service.requests += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        luck = service.random.random()
        if luck < service.trouble / 3:
            return  # the connection is closed before anything happened
        if luck < service.trouble / 3 * 2:
            self._answer(503)
            return
        if service.answer < 300:
            records = json.loads(gzip.decompress(body))["records"]
            service.batches.setdefault(self.headers["Idempotency-Key"], records)
        if luck >= service.trouble:  # or else the answer is lost
            self._answer(service.answer)

    def _answer(self, status: int) -> None:
        body = b'{"error": {"code": "some_code"}}'
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.shutdown()
    service.server_close()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Billed]]:
    home = tmp_path_factory.mktemp("home")
    return home, write_sessions(home, 10, 300_000, seed=7)


def counts_of(calls: list[Billed]) -> list[tuple[str, int, int]]:
    return sorted((call.model, call.prompt, call.completion) for call in calls)


def arrived(records: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Return the calls as an account has them: of one response's copies, the larger counts."""
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        key = (record["provider"], record["request_id"])
        if key not in latest or record["completion_tokens"] > latest[key]["completion_tokens"]:
            latest[key] = record
    return sorted(
        (record["model"], record["prompt_tokens"], record["completion_tokens"])
        for record in latest.values()
    )


class Disk:
    """Writes the corpus bit by bit, and does to files what happens to files."""

    def __init__(self, corpus: Path, home: Path, seed: int) -> None:
        self.home = home
        self.random = random.Random(seed)
        self.contents = {p.relative_to(corpus): p.read_bytes() for p in corpus.rglob("*.jsonl")}
        self.ends = dict.fromkeys(self.contents, 0)
        self.rotated = 0

    def write(self, path: Path, end: int) -> None:
        self.ends[path] = max(self.ends[path], end)
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.contents[path][: self.ends[path]])

    def step(self, share: float) -> None:
        path = self.random.choice(list(self.contents))
        size, luck = len(self.contents[path]), self.random.random()
        target = self.home / path
        if luck < 0.8 or not target.exists():
            goal = int(size * min(1.0, share * self.random.uniform(0.5, 1.5)))
            self.write(path, min(size, max(goal, self.ends[path] + self.random.randrange(LINES))))
        elif luck < 0.87:
            os.truncate(target, self.random.randrange(self.ends[path] + 1))
        elif luck < 0.94:  # rotated; what follows goes to a new file with all of it
            self.rotated += 1
            target.rename(target.with_name(f"{target.stem}.{self.rotated}.jsonl"))
        else:
            os.utime(target, (self.random.randrange(2_000_000_000),) * 2)

    def finish(self) -> None:
        for path, content in self.contents.items():
            self.write(path, len(content))


def kill_often(disk: Disk, ledger: Path, service: Service, kills: int) -> None:
    for number in range(kills):
        ready, is_ready = os.pipe()
        child = os.fork()
        if not child:
            seed = disk.random.getrandbits(32)
            _watch_forever(disk.home, ledger, service.destination, seed, is_ready)
        os.read(ready, 1)
        os.close(ready)
        os.close(is_ready)
        until = time.monotonic() + disk.random.uniform(0.001, 0.05)
        while time.monotonic() < until:
            disk.step(number / kills)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _watch_forever(
    home: Path, ledger: Path, destination: Destination, seed: int, is_ready: int
) -> None:
    """Watch in a process whose clock is days off, until it is killed."""
    try:
        real, off = time.time_ns, random.Random(seed).randrange(-3, 4) * 86_400_000_000_000
        time.time_ns = lambda: real() + off
        watcher = Watcher(Ledger(ledger), destination, sources=find_sources({}, home), settled=0.0)
        watcher.run(0.0, lambda _: True)
    finally:
        os._exit(1)


@at_a_fortieth
def test_kills_truncations_rotations_and_clocks_lose_and_repeat_no_call(share: float) -> None:
    with_folder(scaled(KILLS, share))


def with_folder(kills: int) -> None:
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"watch-{os.getpid()}"
    service = Service(trouble=0.3)
    try:
        calls = write_sessions(folder / "corpus", 10, 300_000, seed=7)
        home, path = folder / "home", folder / "ledger.db"
        disk = Disk(folder / "corpus", home, seed=3)
        Ledger(path).close()
        kill_often(disk, path, service, kills)
        disk.finish()
        assert service.requests > kills / 4
        service.trouble = 0.0
        ledger = Ledger(path)
        Watcher(ledger, service.destination, sources=find_sources({}, home), settled=0.0).go_round()
        rows = ledger.database.execute("SELECT model, prompt, completion FROM calls").fetchall()
        assert sorted(rows) == counts_of(calls)
        assert arrived(service.records) == counts_of(calls)
        identical: dict[str, int] = defaultdict(int)
        for record in service.records:
            identical[json.dumps(record, sort_keys=True)] += 1
        assert max(identical.values()) == 1
        assert ledger.database.execute("SELECT count(*) FROM batches").fetchone() == (0,)
        ledger.close()
    finally:
        service.shutdown()
        service.server_close()
        shutil.rmtree(folder, ignore_errors=True)
