"""The whole service on one machine: servers, migrations, web, workers and sweeper."""

import errno
import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from service.config import Config, read_secrets
from service.core.db import migrate_tables
from service.operations.key_files import FALLBACKS, KEYS, KeyFiles
from service.operations.local.handle import Program, ServersError, ServerStartError
from service.operations.local.placement import choose_user, own_folders
from service.operations.local.run_state import STATE_NAME, save_state
from service.operations.local.servers import EmbeddedServers

_BACKLOG = 2048
USUAL_OWNER = "owner@localhost"


def listen(wanted: int | None, usual: int) -> tuple[int, list[socket.socket]]:
    """Listen on the requested port, or else the default port, or else any free port.

    Returns the port and its sockets: for `localhost` over IPv4, and IPv6 if this machine has it.
    They listen from the start, so no other program can take the port before the web process runs.
    """
    # A port that is free on IPv4 may be taken on IPv6.
    for port in (wanted,) if wanted else (usual, *[0] * 20):
        sockets = list[socket.socket]()
        try:
            sockets.append(socket.create_server(("127.0.0.1", port), backlog=_BACKLOG))
            port = int(sockets[0].getsockname()[1])
            ipv6 = socket.create_server(("::1", port), family=socket.AF_INET6, backlog=_BACKLOG)
            sockets.append(ipv6)
        except OSError as error:
            if not sockets or error.errno == errno.EADDRINUSE:
                close(sockets)
                why = "isn't allowed for this user" if error.errno == errno.EACCES else "is in use"
                continue
        return port, sockets
    if wanted:
        raise ServersError(f"port {wanted} {why}; choose another with --port")
    raise ServersError("no port is free on both IPv4 and IPv6")


def close(sockets: Iterable[socket.socket]) -> None:
    """Close this process's copies; those of other processes stay open."""
    for each in sockets:
        each.close()


class Stack(EmbeddedServers):
    """Everything that `tallystick up` runs, from start to stop.

    Settings that `environment` lacks come from the data folder and the embedded servers. Root runs
    the programs as an ordinary user, or with `allow_root` as root if no such user can.
    """

    config: Config
    port: int
    _programs: tuple[Program, ...] = ()

    def __init__(
        self,
        data_dir: Path,
        port: int | None,
        environment: Mapping[str, str],
        *,
        allow_root: bool = True,
    ) -> None:
        given = read_secrets(environment)
        self._environment = {name: value for name, value in given.items() if value}
        super().__init__(
            data_dir,
            with_postgres="DATABASE_URL" not in self._environment,
            with_redis="REDIS_URL" not in self._environment,
        )
        self._allow_root = allow_root
        self._wanted_port = port

    def _start(self) -> None:
        """Start everything in order; return once the web process is ready for traffic."""
        self.port, sockets = listen(self._wanted_port, 8000)
        self._at_stop.callback(close, sockets)
        self._kept_open = tuple(each.fileno() for each in sockets)
        if os.geteuid() == 0:
            self._programs_user = choose_user(
                self.data_dir, self.notices, allow_root=self._allow_root
            )
        super()._start()
        close(sockets)  # the supervising process holds its own copies
        metrics_port, sockets = listen(None, 9464)
        self._at_stop.callback(close, sockets)
        settings = {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "STORAGE_URL": (self.data_dir / "blobs").as_uri(),
            "METRICS_FOLDER": str(self.data_dir / "metrics"),
            "METRICS_PORT": str(metrics_port),
            "OUTBOX_FOLDER": str(self.data_dir / "outbox"),
            "OWNER_EMAIL": USUAL_OWNER,
            "BASE_URL": f"http://localhost:{self.port}",
        }
        for name in KEYS:
            files = KeyFiles.of(self.data_dir, name)
            settings[name.upper()] = self._environment.get(name.upper()) or files.make()
            settings[f"{name}{FALLBACKS}".upper()] = " ".join(files.load_fallbacks())
        settings = {name: self._environment.get(name) or own for name, own in settings.items()}
        if self._with_postgres:
            settings["MIGRATION_DATABASE_URL"] = self.migration_database_url
        self.config = Config.from_environment({**self._environment, **settings})
        migrate_tables(self.config)
        if self._programs_user is not None:
            own_folders(self._programs_user, self.data_dir, self.config)
        close(sockets)
        self._programs = tuple(self._list_programs({**self._environment, **settings}))
        for program in self._programs:
            self.supervisor.start(program)
        self._wait_until_ready()
        self._at_stop.callback((self.data_dir / STATE_NAME).unlink, missing_ok=True)
        save_state(self.data_dir, settings)

    def wait(self, between: Callable[[], None] | None = None) -> None:
        """Call `between` twice a second; return when the supervisor is gone."""
        while self.supervisor.is_running():
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

    def _list_programs(self, environment: dict[str, str]) -> list[Program]:
        # The programs can't own tables or read backups.
        for name in ("MIGRATION_DATABASE_URL", "BACKUP_KEY"):
            environment.pop(name, None)
        if self._programs_user is not None:  # libraries look for files in root's home, and fail
            environment["HOME"] = str(self.data_dir)
        # gunicorn serves on the inherited sockets, so the port cannot go to another program.
        binds = [f"--bind=fd://{descriptor}" for descriptor in self._kept_open]
        commands: dict[str, tuple[str, ...]] = {
            "web": ("gunicorn", "--config=python:service.web.server.gunicorn_config", *binds),
            "sweeper": ("service", "sweeper"),
            "mail": ("service", "worker", "--queue=mail"),
            "notices": ("service", "worker", "--queue=notices"),
            "metrics": ("service", "metrics"),
        }
        for number in range(1, self.config.worker_processes + 1):
            commands[f"worker-{number}"] = ("service", "worker")
        stop_seconds = self.config.drain_seconds + self.config.stop_seconds + 5.0  # to exit
        return [
            Program(
                name=name,
                # -P: never import a folder named `service` in the current directory.
                command=(sys.executable, "-P", "-m", *command),
                folder=str(self.data_dir),
                environment=environment,
                user=self._programs_user,
                descriptors=self._kept_open if name == "web" else (),
                stop_seconds=stop_seconds,
            )
            for name, command in commands.items()
        ]

    def _wait_until_ready(self) -> None:
        try:
            self._wait_for("web", lambda: find_down(self.port) == [], most_crashes=3)
        except ServerStartError as error:
            down = ", ".join(find_down(self.port) or ())
            what = f"the web process ({down}: down)" if down else "the web process"
            raise ServerStartError(what, self.log_file("web")) from error


def find_down(port: int) -> list[str] | None:
    """Return what the web process lacks to be ready, as in its log; None if it doesn't answer."""
    # A probe of a component that doesn't answer takes two seconds.
    web = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
    with closing(web), suppress(OSError, http.client.HTTPException, ValueError, KeyError):
        web.request("GET", "/readyz", headers={"Accept": "application/json"})
        response = web.getresponse()
        if response.status == http.client.OK:
            return []
        states = json.loads(response.read())["components"]
        return [name for name, state in states.items() if state != "ok"] or ["draining"]
    return None
