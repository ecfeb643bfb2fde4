"""The whole service as separate processes, each of which a test can kill."""

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil
import requests
from redis import ConnectionError as RedisConnectionError
from redis import Redis
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from service.cli.account import create_account, mint_ingest_key
from tests.embedded.stoppable import StoppableServers
from tests.templates import make_data_folder
from tests.warm import AUDITS, PROVIDERS, WarmProcess
from tests.worker.support.jobs import Jobs, RunningJob
from tests.worker.support.records import Records
from tests.worker.support.traffic import batch
from tests.worker.support.waiting import kill, wait_until, wait_until_ended

ROOT: Final = Path(__file__).parents[3]
UNLIMITED: Final = "1000000"
WEB: Final = ("gunicorn", "--config=python:service.web.server.gunicorn_config")
WORKER: Final = ("tests.worker.support.held_worker",)
ENDED_BY_TESTS: Final = (0, -signal.SIGTERM, -signal.SIGKILL)
SWEEPER: Final = ("service", "sweeper")
MAIL_WORKER: Final = ("service", "worker", "--queue=mail")
NOTICE_WORKER: Final = ("service", "worker", "--queue=notices")


class System(Records, Jobs):
    """Servers of its own, the web, workers and a sweeper, under one folder.

    `settings` are the service's, by their environment names; limits that tests would hit are off.
    Only those who test mail have a worker for it, and those who test notices start theirs.
    Processes are forks of a warm one; the tests of `tallystick up` start them by their real command
    lines.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        sweepers: int = 1,
        mail_workers: int = 0,
        **settings: str,
    ):
        self.folder = folder
        self.control = folder / "control"
        self.servers = StoppableServers(folder / "var")
        self.processes: dict[str, WarmProcess] = {}
        self._sessions: set[int] = set()
        self._settings = settings
        self._counts = {"worker": workers, "sweeper": sweepers, "mail": mail_workers}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        self.control.mkdir(parents=True)
        make_data_folder(self.servers.data_dir, with_tables=True)
        self.servers.start()
        # Tests ask again and again, so connections are kept; each is tried before it is used,
        # as the database may have been killed meanwhile.
        self.engine = create_engine(self.servers.database_url, pool_pre_ping=True)
        self.redis = Redis.from_url(self.servers.redis_url)
        self.port = free_port()
        self.base_url = f"http://{self.host}:{self.port}"
        self.key = self.new_key("first@example.com")
        for name in self.process_names():
            self.start_process(name)
        wait_until(self.is_ready, 30)

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for pid in self._pids_of_ours():
            kill(pid)
        if hasattr(self, "engine"):
            self.engine.dispose()
        self.servers.stop()

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs"

    @property
    def database_url(self) -> str:
        """The address that the processes get."""
        return self.servers.database_url

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "AUDIT_CONTROL": str(self.control),
            "SECRET_KEY": "not-a-secret-" * 4,
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.servers.redis_url,
            "STORAGE_URL": self.blobs.as_uri(),
            "OUTBOX_FOLDER": str(self.folder / "outbox"),
            "INGEST_KEY_LIMIT_PER_MINUTE": UNLIMITED,
            "QUEUED_AUDITS_FREE": UNLIMITED,
            "READ_LIMIT_PER_MINUTE": UNLIMITED,
            "PRICES_UPDATE": "off",
            **self._settings,
        }

    # Processes

    def process_names(self) -> list[str]:
        counts = self._counts.items()
        return ["web", *(f"{kind}-{number}" for kind, count in counts for number in range(count))]

    def start_process(self, name: str, **settings: str) -> None:
        """Start one of the service's processes, with `settings` of its own if there are any."""
        kind = name.partition("-")[0]
        web = (*WEB, f"--bind=127.0.0.1:{self.port}")
        commands = {"web": web, "worker": WORKER, "sweeper": SWEEPER, "mail": MAIL_WORKER}
        command = {**commands, "notices": NOTICE_WORKER}[kind]
        log_file = self.folder / f"{name}.log"
        environment = {**self.environment, **settings}
        imports = self._imports_of(kind)
        self.processes[name] = WarmProcess(command, environment, log_file, imports=imports)
        self._sessions.add(self.processes[name].pid)

    def _imports_of(self, kind: str) -> tuple[str, ...]:
        """Return what the processes of this kind import again and again where there are several."""
        if kind == "worker" and self._counts["worker"] > 1:
            return AUDITS
        takes_payments = any("WEBHOOK" in setting for setting in self._settings)
        return PROVIDERS if kind == "web" and takes_payments else ()

    def kill_process(self, name: str) -> None:
        """SIGKILL to this process alone; what it forked runs on."""
        self.processes[name].kill()
        self.processes[name].wait()

    def restart_process(self, name: str, **settings: str) -> None:
        self.kill_process(name)
        self.start_process(name, **settings)

    @contextmanager
    def without_workers(self, **settings: str) -> Iterator[None]:
        """Stop them for the block, and start them with `settings` of their own if there are any."""
        self.stop_workers()
        yield
        for name in self._workers():
            self.start_process(name, **settings)

    def stop_workers(self) -> None:
        """Stop them until the next test that needs them, which `mend` starts them for."""
        for name in self._workers():
            self.kill_process(name)

    def rest(self) -> None:
        """Stop every process but the web; `mend` starts them again."""
        for name in self.processes:
            if name != "web":
                self.kill_process(name)

    def _workers(self) -> list[str]:
        return [name for name in self.processes if name.startswith("worker")]

    @contextmanager
    def standing_redis(self) -> Iterator[None]:
        """A Redis that takes connections and answers nothing until the block ends."""
        pid = self.servers.supervisor.programs()["valkey"].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def kill_web(self) -> None:
        """SIGKILL to gunicorn and to the processes that serve."""
        children = psutil.Process(self.processes["web"].pid).children()
        # Gunicorn first, or it would start others that go on listening.
        self.kill_process("web")
        for child in children:
            kill(child.pid)
            wait_until_ended(child.pid)
        self.start_process("web")

    def kill_redis(self) -> None:
        """SIGKILL; the servers' supervisor starts it again, empty."""
        pid = self.servers.supervisor.programs()["valkey"].pid
        if pid is not None:
            kill(pid)

    def flush_redis(self) -> None:
        """FLUSHALL, as soon as a Redis that was just killed is back."""

        def flush() -> bool:
            try:
                return bool(self.redis.flushall())
            except RedisConnectionError:
                return False

        wait_until(flush, 10)

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def is_ready(self) -> bool:
        try:
            return requests.get(f"{self.base_url}/readyz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def mend(self, *, with_workers: bool = True) -> None:
        """Back to a running, idle service, whatever a test has done to it."""
        for control in ("delay", "poison"):
            (self.control / control).unlink(missing_ok=True)
        if self.servers.supervisor.programs()["valkey"].pid is None:
            self.servers.start_redis()
        with self.engine.begin() as connection:
            connection.execute(text("DELETE FROM audits"))
        for job in self.running_jobs():
            kill(job.pid)
        for mark in self.control.glob("audit-*"):
            mark.unlink()
        for blob in self.blobs.glob("*/*"):
            blob.unlink(missing_ok=True)
        self.flush_redis()
        for name, process in self.processes.items():
            if process.poll() is not None:
                # Tests may kill or stop processes; none may exit on its own.
                assert process.returncode in ENDED_BY_TESTS, self.log_of(name)[-2_000:]
                if with_workers or name not in self._workers():
                    self.start_process(name)
        wait_until(self.is_ready, 30)

    def worker_of(self, job: RunningJob) -> str | None:
        """The name of the worker process that forked the job."""
        try:
            parent = psutil.Process(job.pid).ppid()
        except psutil.NoSuchProcess:
            return None
        return next((name for name, one in self.processes.items() if one.pid == parent), None)

    # Requests

    def new_key(self, email: str) -> str:
        with Session(self.engine) as session:
            account = create_account(session, email, "team")
            session.flush()
            key = mint_ingest_key(session, account)
            session.commit()
        return key

    def post(
        self, body: bytes, *, key: str | None = None, idempotency_key: str | None = None
    ) -> requests.Response:
        headers = {"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json"}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        url = f"{self.base_url}/api/v1/ingest"
        return requests.post(url, data=body, headers=headers, timeout=60)

    def ingest(self, count: int = 1, records: int = 20) -> list[str]:
        """Post batches one after the other; returns the ids of their audits."""
        audit_ids = []
        for number in range(count):
            response = self.post(batch(records, number))
            assert response.status_code == 201, response.text
            audit_ids.append(response.json()["audit_id"])
        return audit_ids

    def ingest_at_once(self, count: int, records: int = 20) -> list[str]:
        with ThreadPoolExecutor(8) as pool:
            results = pool.map(lambda _: self.ingest(1, records), range(count))
            return [audit_id for audit_ids in results for audit_id in audit_ids]

    def _pids_of_ours(self) -> list[int]:
        """What is left of our processes: jobs whose worker was killed, in its session."""
        left = []
        for pid in psutil.pids():
            with suppress(OSError):
                if os.getsid(pid) in self._sessions:
                    left.append(pid)
        return left


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
