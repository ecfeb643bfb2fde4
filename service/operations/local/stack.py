"""The whole service on one machine: servers, migrations, web, workers and sweeper."""

import errno
import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

from service.config import Config, read_secrets
from service.core.db import migrate_tables
from service.operations.local import run_state
from service.operations.local.embedded.errors import ServersError, ServerStartError
from service.operations.local.embedded.servers import EmbeddedServers
from service.operations.local.processes.handle import OrdinaryUser, Program, Supervisor
from service.operations.local.users import choose_user, own_folders

_BACKLOG = 2048
_ATTEMPTS = 20  # a port that is free on IPv4 may be taken on IPv6


class PortTakenError(ServersError):
    """Another program is listening on the requested port."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is in use; choose another with --port")


def listen(wanted: int | None, usual: int) -> tuple[int, list[socket.socket]]:
    """Listen on the requested port, or else the default port, or else any free port.

    Returns the port and its sockets: for `localhost` over IPv4, and IPv6 if this machine has it.
    They listen from the start, so no other program can take the port before the web process runs.
    """
    for port in (wanted,) if wanted else (usual, *[0] * _ATTEMPTS):
        sockets = list[socket.socket]()
        try:
            sockets.append(socket.create_server(("127.0.0.1", port), backlog=_BACKLOG))
            port = int(sockets[0].getsockname()[1])
            ipv6 = socket.create_server(("::1", port), family=socket.AF_INET6, backlog=_BACKLOG)
            sockets.append(ipv6)
        except OSError as error:
            if not sockets or error.errno == errno.EADDRINUSE:
                close(sockets)
                continue
        return port, sockets
    if wanted:
        raise PortTakenError(wanted)
    raise ServersError("no port is free on both IPv4 and IPv6")


def close(sockets: Iterable[socket.socket]) -> None:
    """Close this process's copies; those of other processes stay open."""
    for each in sockets:
        each.close()


USUAL_PORT = 8000
USUAL_METRICS_PORT = 9464
USUAL_OWNER = "owner@localhost"
READY_SECONDS = 60.0
GIVE_UP_AFTER_CRASHES = 3
# Extra time for a program to exit after its grace period.
_STOP_MARGIN_SECONDS = 5.0
# How long readiness may take: a probe of a component that does not answer has two seconds.
_READINESS_SECONDS = 5.0
_PROGRAMS_STAGE = 1  # Programs stop before the servers they use.


class Stack:
    """Everything that `tallystick up` runs, from start to stop.

    `environment` holds the settings; missing settings come from the data folder and the embedded
    servers. Without `port`, the default port or a free port is used.

    Root runs the programs as an ordinary user. If that user can't reach the code or the data, they
    run as root, but only with `allow_root`.
    """

    config: Config
    port: int

    def __init__(
        self,
        data_dir: Path,
        port: int | None,
        environment: Mapping[str, str],
        *,
        allow_root: bool = True,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self._allow_root = allow_root
        self._user: OrdinaryUser | None = None
        self._notices: tuple[str, ...] = ()
        self._wanted_port = port
        given = read_secrets(environment)
        self._environment = {name: value for name, value in given.items() if value}
        self._sockets: list[socket.socket] = []
        self._metrics_sockets: list[socket.socket] = []
        self._programs: list[Program] = []
        self._servers = EmbeddedServers(
            self.data_dir,
            with_postgres="DATABASE_URL" not in self._environment,
            with_redis="REDIS_URL" not in self._environment,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def supervisor(self) -> Supervisor:
        """Return the supervisor, which runs each program under the name of its log file."""
        return self._servers.supervisor

    @property
    def notices(self) -> tuple[str, ...]:
        return (*self._notices, *self._servers.notices)

    def start(self) -> None:
        """Start everything in order; return once the web process is ready for traffic."""
        try:
            self.port, self._sockets = listen(self._wanted_port, USUAL_PORT)
            self._servers.kept_open = tuple(each.fileno() for each in self._sockets)
            if os.geteuid() == 0:
                self._servers.make_folder()
                self._user, self._notices = choose_user(self.data_dir, allow_root=self._allow_root)
                self._servers.programs_user = self._user
            self._servers.start()
            settings = self._fill_in_settings()
            self.config = Config.from_environment(
                {**self._environment, **settings, **self._migration_settings()}
            )
            migrate_tables(self.config)
            if self._user is not None:
                own_folders(self._user, self.data_dir, self.config)
            close(self._metrics_sockets)
            self._programs = self._list_programs(settings)
            for program in self._programs:
                self.supervisor.start(program)
            close(self._sockets)  # the supervising process holds its own copies
            self._wait_until_ready()
            run_state.save_state(self.data_dir, {**settings, **self._migration_settings()})
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._servers.is_started:
            run_state.clear_state(self.data_dir)
        self._servers.stop()
        close((*self._sockets, *self._metrics_sockets))

    def wait(self, between: Callable[[], None] | None = None) -> None:
        """Wait until a signal interrupts, or return when the supervisor is gone.

        `between` is called twice a second.
        """
        while self._servers.supervisor.is_running():
            if between is not None:
                between()
            time.sleep(0.5)

    def restart_programs(self) -> None:
        """Restart all but the servers, on the same ports; returns once the web process is ready."""
        for program in self._programs:
            self.supervisor.stop(program.name)
        for program in self._programs:
            self.supervisor.start(program)
        self._wait_until_ready()

    def _migration_settings(self) -> dict[str, str]:
        """Return the settings that only migrations need; the programs don't get them."""
        if "DATABASE_URL" in self._environment:
            return {}
        return {"MIGRATION_DATABASE_URL": self._servers.migration_database_url}

    def _fill_in_settings(self) -> dict[str, str]:
        """Return the settings that all processes share, from the environment or else local."""
        secret, encryption = run_state.SECRET_KEY_NAME, run_state.ENCRYPTION_KEY_NAME

        def hold_metrics_port() -> str:
            port, self._metrics_sockets = listen(None, USUAL_METRICS_PORT)
            return str(port)

        makers: dict[str, Callable[[], str]] = {
            "SECRET_KEY": lambda: run_state.load_key(self.data_dir, secret),
            "SECRET_KEY_FALLBACKS": lambda: run_state.load_fallbacks(self.data_dir, secret),
            "ENCRYPTION_KEY": lambda: run_state.load_key(self.data_dir, encryption),
            "ENCRYPTION_KEY_FALLBACKS": lambda: run_state.load_fallbacks(self.data_dir, encryption),
            "DATABASE_URL": lambda: self._servers.database_url,
            "REDIS_URL": lambda: self._servers.redis_url,
            "STORAGE_URL": lambda: (self.data_dir / "blobs").as_uri(),
            "METRICS_FOLDER": lambda: str(self.data_dir / "metrics"),
            "METRICS_PORT": hold_metrics_port,
            "OUTBOX_FOLDER": lambda: str(self.data_dir / "outbox"),
            "OWNER_EMAIL": lambda: USUAL_OWNER,
            "BASE_URL": lambda: f"http://localhost:{self.port}",
        }
        return {name: self._environment.get(name) or make() for name, make in makers.items()}

    def _list_programs(self, settings: Mapping[str, str]) -> list[Program]:
        # The programs can't own tables or read backups.
        environment = {**self._environment, **settings}
        for name in ("MIGRATION_DATABASE_URL", "BACKUP_KEY"):
            environment.pop(name, None)
        if self._user is not None:  # libraries look for their files in root's home, and fail
            environment["HOME"] = str(self.data_dir)
        # gunicorn serves on the inherited sockets, so the port cannot go to another program.
        binds = [f"--bind=fd://{descriptor}" for descriptor in self._servers.kept_open]
        commands: dict[str, tuple[str, ...]] = {
            "web": ("gunicorn", "--config=python:service.web.server.gunicorn_config", *binds),
            "sweeper": ("service", "sweeper"),
            "mail": ("service", "worker", "--queue=mail"),
            "notices": ("service", "worker", "--queue=notices"),
            "metrics": ("service", "metrics"),
        }
        for number in range(1, self.config.worker_processes + 1):
            commands[f"worker-{number}"] = ("service", "worker")
        grace_seconds = self.config.drain_seconds + self.config.stop_seconds
        return [
            Program(
                name=name,
                # -P: never import a folder named `service` in the current directory.
                command=(sys.executable, "-P", "-m", *command),
                folder=str(self.data_dir),
                log_file=str(self._servers.log_file(name)),
                environment=environment,
                user=self._user,
                descriptors=self._servers.kept_open if name == "web" else (),
                stop_seconds=grace_seconds + _STOP_MARGIN_SECONDS,
                stage=_PROGRAMS_STAGE,
            )
            for name, command in commands.items()
        ]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        before = self.supervisor.programs()["web"].crashes
        while (down := find_down(self.port)) or down is None:
            crashes = self.supervisor.programs()["web"].crashes - before
            if crashes >= GIVE_UP_AFTER_CRASHES or time.monotonic() > deadline:
                what = f"the web process ({', '.join(down)}: down)" if down else "the web process"
                raise ServerStartError(what, self._servers.log_file("web"))
            time.sleep(0.05)


def find_down(port: int) -> list[str] | None:
    """Return what the web process lacks to be ready; None while it doesn't answer.

    What it lacks is named in its log, with the reason.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_READINESS_SECONDS)
    try:
        connection.request("GET", "/readyz", headers={"Accept": "application/json"})
        response = connection.getresponse()
        if response.status == http.client.OK:
            return []
        states = json.loads(response.read())["components"]
        return [name for name, state in states.items() if state != "ok"] or ["draining"]
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
    finally:
        connection.close()
