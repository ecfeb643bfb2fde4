"""Start the web process under gunicorn, on a database that no other test uses."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import requests
from sqlalchemy import Engine, create_engine

from service.core.db import make_session_factory
from tests.databases import make_database
from tests.service.support.scenes import SECRET_KEY, Sessions, Tenant, add_tenant, sign_in
from tests.warm import PROVIDERS, WarmProcess

ONE_PROCESS: Final = {"gunicorn_cmd_args": "--workers=1"}


Process = WarmProcess | subprocess.Popen[bytes]


@dataclass(frozen=True)
class LiveService:
    url: str
    log_file: Path
    blobs: Path
    engine: Engine
    process: Process

    @property
    def sessions(self) -> Sessions:
        return make_session_factory(self.engine)

    def add_tenant(self, status: str | None = "active") -> Tenant:
        return add_tenant(self.sessions, status=status)

    def sign_in(self, email: str) -> dict[str, str]:
        """The headers of a signed-in browser."""
        return sign_in(self.sessions, email)

    @property
    def uploads(self) -> Path:
        """Where files are received."""
        return self.blobs.parent / "uploads"

    def blob_names(self) -> set[str]:
        return {path.name for path in self.blobs.rglob("*") if path.is_file()}


def start_live_service(
    database_url: str, redis_url: str, folder: Path, **settings: object
) -> LiveService:
    """gunicorn with two workers, or `ONE_PROCESS`; `settings` are variables in lower case."""
    imports = PROVIDERS if any("webhook" in name for name in settings) else ()
    start = partial(WarmProcess, imports=imports)
    return _start(start, make_database(database_url), redis_url, folder, settings)


def start_cold_service(
    database_url: str, redis_url: str, folder: Path, **settings: object
) -> LiveService:
    """The same in an interpreter of its own, without what `tests.warm` has imported."""
    return _start(_start_program, make_database(database_url), redis_url, folder, settings)


def _start_program(
    arguments: Sequence[str], environment: Mapping[str, str], log_file: Path
) -> subprocess.Popen[bytes]:
    with log_file.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _start(
    start: Callable[..., Process],
    own_url: str,
    redis_url: str,
    folder: Path,
    settings: Mapping[str, object],
) -> LiveService:
    (folder / "uploads").mkdir()
    port = free_port()
    environment = {
        **os.environ,
        "SECRET_KEY": SECRET_KEY,
        "DATABASE_URL": own_url,
        "REDIS_URL": redis_url,
        "STORAGE_URL": f"file://{folder}/blobs",
        "INGEST_KEY_LIMIT_PER_MINUTE": "100000",
        "UPLOAD_LIMIT_PER_MINUTE": "100000",
        "READ_LIMIT_PER_MINUTE": "1000000",
        "UPLOAD_FOLDER": str(folder / "uploads"),
        **{name.upper(): str(value) for name, value in settings.items()},
    }
    log_file = folder / "web.log"
    config = "--config=python:service.web.server.gunicorn_config"
    process = start(("gunicorn", config, f"--bind=127.0.0.1:{port}"), environment, log_file)
    url = f"http://127.0.0.1:{port}"
    _wait_until_answering(url, process, log_file)
    return LiveService(url, log_file, folder / "blobs", create_engine(own_url), process)


def stop_live_service(service: LiveService) -> None:
    service.process.terminate()
    service.process.wait(20)
    service.engine.dispose()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_answering(url: str, process: Process, log_file: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if requests.get(f"{url}/readyz", timeout=5).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.1)
    process.kill()
    process.wait()
    raise AssertionError(log_file.read_text())
