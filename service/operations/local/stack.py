"""The whole service on one machine: servers, migrations, web, workers and sweeper."""

import http.client
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from service.config import Config
from service.core.db import migrate
from service.operations.local import run_state
from service.operations.local.embedded import EmbeddedServers, ServersError, ServerStartError
from service.operations.local.processes import Program, Supervisor

USUAL_PORT = 8000
USUAL_METRICS_PORT = 9464
READY_SECONDS = 60.0
GIVE_UP_AFTER_CRASHES = 3
# What a program that has used up its grace still needs to end by itself.
_STOP_MARGIN_SECONDS = 5.0
_PROGRAMS_STAGE = 1  # Stopped before the servers that they use.


class PortTakenError(ServersError):
    """Something else listens where the service should."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is in use; choose another with --port")


class Stack:
    """Everything that `tallystick up` runs, from start to stop.

    `environment` holds the settings; those that it lacks are filled in from the data folder and
    the embedded servers. Without a `port`, the usual one or a free one is taken.
    """

    config: Config
    port: int

    def __init__(self, data_dir: Path, port: int | None, environment: Mapping[str, str]) -> None:
        self.data_dir = data_dir.absolute()
        self._wanted_port = port
        self._environment = {name: value for name, value in environment.items() if value}
        self._servers = EmbeddedServers(
            self.data_dir,
            with_postgres="DATABASE_URL" not in self._environment,
            with_redis="REDIS_URL" not in self._environment,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def supervisor(self) -> Supervisor:
        """Runs the programs, by the names of their log files."""
        return self._servers.supervisor

    @property
    def notices(self) -> tuple[str, ...]:
        return self._servers.notices

    def start(self) -> None:
        """Start everything in order; returns once the web process is ready for traffic."""
        try:
            self._servers.start()
            self.port = _choose_port(self._wanted_port)
            settings = self._fill_in_settings()
            self.config = Config.from_environment({**self._environment, **settings})
            migrate(self.config.database_url)
            self._start_programs(settings)
            self._wait_until_ready()
            run_state.save_state(self.data_dir, settings)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._servers.is_started:
            run_state.clear_state(self.data_dir)
        self._servers.stop()

    def wait(self) -> None:
        """Wait until a signal interrupts, or return when the supervisor is gone."""
        while self._servers.supervisor.is_running():
            time.sleep(0.5)

    def _fill_in_settings(self) -> dict[str, str]:
        """Each setting that other processes must share, as given or from what runs here."""
        makers: dict[str, Callable[[], str]] = {
            "SECRET_KEY": lambda: run_state.load_secret_key(self.data_dir),
            "DATABASE_URL": lambda: self._servers.database_url,
            "REDIS_URL": lambda: self._servers.redis_url,
            "STORAGE_URL": lambda: (self.data_dir / "blobs").as_uri(),
            "METRICS_FOLDER": lambda: str(self.data_dir / "metrics"),
            "METRICS_PORT": lambda: str(_choose_port(None, USUAL_METRICS_PORT)),
            "OUTBOX_FOLDER": lambda: str(self.data_dir / "outbox"),
            "BASE_URL": lambda: f"http://localhost:{self.port}",
        }
        return {name: self._environment.get(name) or make() for name, make in makers.items()}

    def _start_programs(self, settings: dict[str, str]) -> None:
        binds = [f"--bind={address}:{self.port}" for address in _loopback_addresses(self.port)]
        gunicorn = ("gunicorn", "--config=python:service.web.server.gunicorn_config", *binds)
        mail = ("service", "worker", "--queue=mail")
        commands = {"web": gunicorn, "sweeper": ("service", "sweeper"), "mail": mail}
        commands["metrics"] = ("service", "metrics")
        for number in range(1, self.config.worker_processes + 1):
            commands[f"worker-{number}"] = ("service", "worker")
        for name, (module, *arguments) in commands.items():
            program = Program(
                name=name,
                # -P: a folder named `service` where the user stands must not be imported.
                command=(sys.executable, "-P", "-m", module, *arguments),
                folder=str(self.data_dir),
                log_file=str(self._servers.log_file(name)),
                environment={**self._environment, **settings},
                stop_seconds=self.config.stop_seconds + _STOP_MARGIN_SECONDS,
                stage=_PROGRAMS_STAGE,
            )
            self._servers.supervisor.start(program)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not _is_ready(self.port):
            crashes = self._servers.supervisor.programs()["web"].crashes
            if crashes >= GIVE_UP_AFTER_CRASHES or time.monotonic() > deadline:
                raise ServerStartError("the web process", self._servers.log_file("web"))
            time.sleep(0.05)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _choose_port(wanted: int | None, usual: int = USUAL_PORT) -> int:
    """The wanted port, or else the usual one, or else one that the system finds free."""
    port = wanted or usual
    if _loopback_addresses(port):
        return port
    if wanted:
        raise PortTakenError(wanted)
    with socket.socket(socket.AF_INET) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _loopback_addresses(port: int) -> tuple[str, ...]:
    """Where to listen, so that `localhost` is we whichever way it is read; empty if taken."""
    if not _can_bind(socket.AF_INET, "127.0.0.1", port):
        return ()
    if not _can_bind(socket.AF_INET6, "::1", 0):  # This machine has no IPv6.
        return ("127.0.0.1",)
    return ("127.0.0.1", "[::1]") if _can_bind(socket.AF_INET6, "::1", port) else ()


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind((address, port))
    except OSError:
        return False
    return True
