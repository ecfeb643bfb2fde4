"""The embedded servers of one data folder, from start to stop."""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from pwd import struct_passwd
from typing import Self

from service.operations.local.embedded import postgres, valkey
from service.operations.local.embedded.binaries import find_binaries
from service.operations.local.embedded.errors import ServersError, ServerStartError
from service.operations.local.embedded.ownership import lock_folder, stop_leftovers, unlock_folder
from service.operations.local.embedded.placement import Placement, place
from service.operations.local.processes.handle import Supervisor

START_SECONDS = 60.0


class EmbeddedServers:
    """PostgreSQL and Valkey in a data folder that this process owns from start to stop.

    The servers end with this process, however it ends. Leave out a server that runs elsewhere;
    without either server, the folder lock and the supervisor remain for the caller's programs.
    `supervisor` runs each program under the name of its log file.
    """

    supervisor: Supervisor
    notices: tuple[str, ...]  # to show to the person who started this
    database_url: str  # for the service's role, which owns nothing
    migration_database_url: str  # for the owner of the tables
    redis_url: str
    _placement: Placement | None

    def __init__(
        self, data_dir: Path, *, with_postgres: bool = True, with_redis: bool = True
    ) -> None:
        self.data_dir = data_dir.absolute()
        self._with_postgres = with_postgres
        self._with_redis = with_redis
        self._at_stop = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Lock the folder and start the servers; return once both accept connections.

        Raises `AlreadyRunningError` while another process owns the folder, and another
        `ServersError` with one line that says what is wrong.
        """
        self.notices = ()
        try:
            if not self.data_dir.exists():
                self.data_dir.mkdir(parents=True)
                # The servers' user may have to pass through, whatever the umask.
                self.data_dir.chmod(0o711)
            self._start()
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                what, why = error.filename or self.data_dir, error.strerror or error
                raise ServersError(f"can't use {what}: {why}") from error
            raise

    def _start(self) -> None:
        self._start_servers()

    def _start_servers(
        self, kept_open: tuple[int, ...] = (), programs_user: struct_passwd | None = None
    ) -> None:
        """Start the servers for another user too; the supervisor keeps file descriptors open."""
        (self.data_dir / "log").mkdir(mode=0o700, exist_ok=True)
        lock = lock_folder(self.data_dir)
        self._at_stop.callback(unlock_folder, lock)
        placement = self._placement = None
        if self._with_postgres or self._with_redis:
            binaries = find_binaries(with_valkey=self._with_redis)
            placement = self._placement = place(self.data_dir, binaries, programs_user)
            self.notices += placement.notices
            if placement.sockets.parent != placement.folder:
                self._at_stop.callback(shutil.rmtree, placement.sockets, ignore_errors=True)
            stop_leftovers(placement.folder, placement.user)
        self.supervisor = Supervisor(self.data_dir / "log", (lock, *kept_open))
        self._at_stop.callback(self.supervisor.close)
        if placement and self._with_redis:
            valkey.prepare(placement)
            self.redis_url = valkey.redis_url(placement)
            self.supervisor.start(valkey.program(placement))
        if placement and self._with_postgres:
            postgres.prepare(placement)
            self.database_url = postgres.database_url(placement)
            self.migration_database_url = postgres.database_url(placement, postgres.OWNER_ROLE)
            self.supervisor.start(postgres.program(placement))
            self._wait_for(postgres.NAME, partial(postgres.answers, placement))
        if self._with_redis:
            self._wait_for(valkey.NAME, partial(valkey.answers, self.redis_url))

    def stop(self) -> None:
        """Stop everything in order and release the folder; may be called twice."""
        self._at_stop.close()

    def log_file(self, name: str) -> Path:
        """Return the log file of a program."""
        return self.data_dir / "log" / f"{name}.log"

    def _wait_for(self, name: str, answers: Callable[[], bool], most_crashes: int = 5) -> None:
        """Wait until a program answers; give up after a minute, or if it crashes that often."""
        deadline = time.monotonic() + START_SECONDS
        crashes = self.supervisor.programs()[name].crashes
        while not answers():
            crashed = self.supervisor.programs()[name].crashes - crashes
            if crashed >= most_crashes or time.monotonic() > deadline:
                raise ServerStartError(name, self.log_file(name))
            time.sleep(0.02)
