"""Row 48: a deploy is not noticed. Two web instances behind the proxies of `deploy/`, or one whose
socket a service manager holds, are restarted with workers and migrations under traffic.

The smaller proofs are in tests/deploy/test_stopping.py and tests/meta/test_migrations.py.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread, local

import pytest
import requests
from alembic.script import ScriptDirectory
from sqlalchemy import text

from service.core.db import downgrade, migrate
from tests.deploy.proxies import Proxy, find_proxy, started_proxy
from tests.meta.test_migrations import NEXT_MIGRATION
from tests.worker.support.promises import STRESS_SECONDS, Note
from tests.worker.support.system import WEB, System, free_port
from tests.worker.support.traffic import batch
from tests.worker.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("DEPLOY_SECONDS", "300"))
PER_SECOND = 50
NOTICED_SECONDS = 3  # until the proxies' health checks have seen it, too
CLIENTS = 24
RECORDS = 5
# Become `python -m …` with the socket where systemd would put it: the first file after stderr.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[2:]])
"""


class TwoInstances(System):
    """The whole service with two web instances, which a proxy would spread requests over."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, TRUSTED_PROXIES="1", DRAIN_SECONDS="3")
        self.ports: dict[str, int] = {}

    def process_names(self) -> list[str]:
        return ["web-a", "web-b", *super().process_names()[1:]]

    def start_process(self, name: str, **settings: str) -> None:
        if name.startswith("web"):
            self.port = self.ports.setdefault(name, free_port())
            self.base_url = f"http://{self.host}:{self.port}"
        super().start_process(name, **settings)

    def replace(self, name: str) -> None:
        """Stop a process as a service manager does, and start it again."""
        self.processes[name].terminate()
        assert self.processes[name].wait(40) == 0, self.log_of(name)[-2_000:]
        self.start_process(name)
        if name in self.ports:
            address = f"http://127.0.0.1:{self.ports[name]}/readyz"
            wait_until(lambda: _answers(address), 60)
            time.sleep(NOTICED_SECONDS)


class SocketActivated(System):
    """The whole service with one web process, whose socket is held for it as systemd does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, TRUSTED_PROXIES="1")
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"

    def process_names(self) -> list[str]:
        return super().process_names()[1:]

    def start(self) -> None:
        super().start()
        self.start_web()

    def is_ready(self) -> bool:
        return not hasattr(self, "web") or super().is_ready()

    def start_web(self) -> None:
        """Run the command of `deploy/systemd/`, with the socket where systemd puts it."""
        self.base_url = f"http://{self.address}"
        descriptor = self.listener.fileno()
        with (self.folder / "web.log").open("ab") as log:
            self.web = subprocess.Popen(
                [sys.executable, "-c", ACTIVATE, str(descriptor), *WEB],
                env=self.environment,
                pass_fds=[descriptor],
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: _answers(f"{self.base_url}/readyz"), 60)

    def stop(self) -> None:
        if hasattr(self, "web"):
            self.web.terminate()
            self.web.wait(60)
        self.listener.close()
        super().stop()

    def replace(self, name: str) -> None:
        """Stop a process as a service manager does, and start it again at once."""
        self.processes[name].terminate()
        assert self.processes[name].wait(40) == 0, self.log_of(name)[-2_000:]
        self.start_process(name)

    def replace_web(self) -> None:
        self.web.terminate()
        assert self.web.wait(60) == 0, self.log_of("web")[-2_000:]
        self.start_web()


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code == 200
    except requests.RequestException:
        return False


@dataclass
class Traffic:
    """Clients that send, read and look at pages, at an even pace; some keep their connections."""

    key: str
    proxies: list[Proxy]
    tried: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    audits: list[str] = field(default_factory=list)
    slowest: float = 0.0
    _kept: local = field(default_factory=local)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        done = Event()
        pacing = Thread(target=self._pace, args=(done,))
        pacing.start()
        try:
            yield
        finally:
            done.set()
            pacing.join()

    def _pace(self, done: Event) -> None:
        started = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as pool:
            for number in count():
                pause = started + number / PER_SECOND - time.monotonic()
                if done.wait(max(0.0, pause)):
                    return
                pool.submit(self._ask, number)

    def _ask(self, number: int) -> None:
        way = number % len(self.proxies)
        kind = ("batch", "list", "page", "batch")[number // len(self.proxies) % 4]
        began = time.monotonic()
        try:
            answer = self._send(kind, way, number)
            problem = "" if answer.ok else f"{answer.status_code} {answer.text[:200]}"
        except requests.RequestException as error:
            problem = repr(error)
        with self._lock:
            self.tried[kind] += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
            if problem:
                self.failed.append(f"{time.strftime('%X')} way {way} {kind}: {problem[:300]}")
            elif kind == "batch":
                self.audits.append(answer.json()["audit_id"])

    def _send(self, kind: str, way: int, number: int) -> requests.Response:
        session = self._session(way, is_kept=number % 2 == 0)
        url, bearer = self.proxies[way].url, {"Authorization": f"Bearer {self.key}"}
        if kind == "page":
            return session.get(f"{url}/sign-in", timeout=30)
        if kind == "list":
            return session.get(f"{url}/sample", timeout=30)
        headers = {**bearer, "Content-Type": "application/json"}
        body = batch(RECORDS, number)
        return session.post(f"{url}/api/v1/ingest", data=body, headers=headers, timeout=30)

    def _session(self, way: int, *, is_kept: bool) -> requests.Session:
        """A session of this thread, or one with a new connection."""
        kept: dict[int, requests.Session] = self._kept.__dict__.setdefault("sessions", {})
        if not is_kept:
            return self.proxies[way].client()
        if way not in kept:
            kept[way] = self.proxies[way].client()
        return kept[way]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A short path that PostgreSQL's user may pass through, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="tallystick-deploy-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The migrations, and one more with a column and an index of the largest table."""
    folder = tmp_path / "migrations"
    shutil.copytree(ROOT / "migrations", folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("service.core.db._MIGRATIONS", folder)
    head = ScriptDirectory(str(folder)).get_current_head()
    (folder / "versions" / "9999_next.py").write_text(NEXT_MIGRATION.format(head=head))


@pytest.mark.stress
@pytest.mark.timeout(STRESS_SECONDS)
@pytest.mark.usefixtures("next_release")
def test_a_deploy_behind_a_proxy_is_not_noticed(
    open_folder: Path, tmp_path: Path, note: Note
) -> None:
    names = [name for name in ("nginx", "caddy") if find_proxy(name)]
    with TwoInstances(open_folder) as system:
        owner = system.servers.migration_database_url
        addresses = [f"127.0.0.1:{port}" for port in system.ports.values()]
        proxies = [_start(name, tmp_path, addresses) for name in names]
        with proxies[0] as first, proxies[1] as second:
            traffic = Traffic(system.key, [first, second])
            with traffic.flowing():
                rounds = _deploy_again_and_again(system, owner)
        _report(system, traffic, note, "48 a deploy is not noticed: requests", rounds)


@pytest.mark.stress
@pytest.mark.timeout(STRESS_SECONDS)
def test_a_restart_with_a_held_socket_is_not_noticed(
    open_folder: Path, tmp_path: Path, note: Note
) -> None:
    names = [name for name in ("nginx", "caddy") if find_proxy(name)]
    with SocketActivated(open_folder) as system:
        proxies = [_start(name, tmp_path, [system.address]) for name in names]
        with proxies[0] as first, proxies[1] as second:
            traffic = Traffic(system.key, [first, second])
            with traffic.flowing():
                restarts = _restart_again_and_again(system)
        _report(system, traffic, note, "48 a restart with a held socket: requests", restarts)


def _restart_again_and_again(system: SocketActivated) -> int:
    ends_at = time.monotonic() + SECONDS
    for number in count(1):
        system.replace_web()
        for name in list(system.processes):
            system.replace(name)
        if time.monotonic() > ends_at:
            return number
    raise AssertionError


def _start(name: str, folder: Path, addresses: list[str]) -> AbstractContextManager[Proxy]:
    (folder / name).mkdir()
    return started_proxy(name, folder / name, *addresses)


def _deploy_again_and_again(system: TwoInstances, owner: str) -> int:
    """Migrate to the next release's tables and back; this release runs with either."""
    ends_at = time.monotonic() + SECONDS
    for number in count(1):
        if number % 2:
            migrate(owner)
        else:
            downgrade(owner, "-1")
        for name in list(system.processes):
            system.replace(name)
        if time.monotonic() > ends_at:
            return number
    raise AssertionError


def _report(system: System, traffic: Traffic, note: Note, promise: str, rounds: int) -> None:
    kinds = Counter(each.partition(": ")[2][:150] for each in traffic.failed)
    assert not traffic.failed, (len(traffic.failed), kinds.most_common(5), traffic.failed[-5:])
    note(promise, traffic.tried.total(), len(traffic.failed))
    note(f"48 deploys, with a slowest answer of {traffic.slowest:.1f} s", rounds, 0)
    wait_until(lambda: not _count(system, "status IN ('queued', 'processing')"), 600)
    assert _count(system, "status = 'done'") == len(traffic.audits) == len(set(traffic.audits))
    note("48 a deploy is not noticed: batches that were accepted", len(traffic.audits), 0)


def _count(system: System, condition: str) -> int:
    with system.engine.connect() as connection:
        where = f"source = 'ingest' AND {condition}"
        return int(connection.scalar(text(f"SELECT count(*) FROM audits WHERE {where}")) or 0)
