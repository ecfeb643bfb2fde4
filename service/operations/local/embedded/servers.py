"""The embedded servers of one data folder, from start to stop."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from service.operations.local.embedded import postgres, valkey
from service.operations.local.embedded.binaries import find_binaries
from service.operations.local.embedded.errors import ServersError, ServerStartError
from service.operations.local.embedded.ownership import lock_folder, unlock_folder
from service.operations.local.embedded.placement import Placement, place
from service.operations.local.processes.handle import OrdinaryUser, Supervisor

START_SECONDS = 60.0
# A server that crashes this often during startup will not start at all.
GIVE_UP_AFTER_CRASHES = 5


class EmbeddedServers:
    """PostgreSQL and Valkey in a data folder that this process owns from start to stop.

    The servers end with this process, however it ends. Leave out a server that runs elsewhere;
    without either server, the folder lock and the supervisor remain for the caller's programs.
    `supervisor` runs the servers; the owner may add programs, which stop before the servers.
    """

    supervisor: Supervisor

    def __init__(
        self, data_dir: Path, *, with_postgres: bool = True, with_redis: bool = True
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.notices: tuple[str, ...] = ()  # to show to the person who started this
        self._with_postgres = with_postgres
        self._with_redis = with_redis
        # Set these before the start: file descriptors that the supervising process keeps open, and
        # another user who may use the servers.
        self.kept_open: tuple[int, ...] = ()
        self.programs_user: OrdinaryUser | None = None
        self._placement: Placement | None = None
        self._lock: int | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def is_started(self) -> bool:
        return self._lock is not None

    @property
    def database_url(self) -> str:
        """Return the address for the service's role, which owns nothing."""
        return postgres.database_url(self._placed)

    @property
    def migration_database_url(self) -> str:
        """Return the address for the owner of the tables."""
        return postgres.database_url(self._placed, postgres.OWNER_ROLE)

    @property
    def redis_url(self) -> str:
        return valkey.redis_url(self._placed)

    def start(self) -> None:
        """Lock the folder and start the servers; return once both accept connections.

        Raises `AlreadyRunningError` while another process owns the folder, and another
        `ServersError` with one line that says what is wrong.
        """
        try:
            self.make_folder()
            (self.data_dir / "log").mkdir(mode=0o700, exist_ok=True)
            lock = lock_folder(self.data_dir)
            self.supervisor = Supervisor(self.log_file("supervisor"), (lock, *self.kept_open))
            self._lock = lock
            if self._with_postgres or self._with_redis:
                placement = place(self.data_dir, find_binaries(), self.programs_user)
                self._placement, self.notices = placement, placement.notices
            if self._with_redis:
                valkey.prepare(self._placed)
                self.supervisor.start(valkey.program(self._placed, self.log_file(valkey.NAME)))
            if self._with_postgres:
                postgres.prepare(self._placed)
                self._start_postgres()
            if self._with_redis:
                self._wait_for(valkey.NAME, valkey.answers)
        except OSError as error:
            self.stop()
            raise ServersError(f"can't use {error.filename}: {error.strerror}") from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything in order and release the folder; may be called twice."""
        if self._lock is None:
            return
        self.supervisor.close()
        unlock_folder(self._lock)
        self._lock = None
        if self._placement and self._placement.sockets.parent != self._placement.folder:
            shutil.rmtree(self._placement.sockets, ignore_errors=True)
        self._placement = None

    def restart_postgres(self, *, immediate: bool = False) -> None:
        """Restart PostgreSQL at the same address; `immediate` lets it crash and recover."""
        self.supervisor.stop(postgres.NAME, signal.SIGQUIT if immediate else None)
        self._start_postgres()

    def stop_redis(self) -> None:
        self.supervisor.stop(valkey.NAME)

    def start_redis(self) -> None:
        """Start Valkey, empty, at the same address."""
        self.supervisor.start(valkey.program(self._placed, self.log_file(valkey.NAME)))
        self._wait_for(valkey.NAME, valkey.answers)

    def log_file(self, name: str) -> Path:
        """Return the log file of a program."""
        return self.data_dir / "log" / f"{name}.log"

    def make_folder(self) -> None:
        """Create the data folder unless it exists."""
        if not self.data_dir.exists():
            self.data_dir.mkdir(parents=True)
            # The servers' user may have to pass through, whatever the umask.
            self.data_dir.chmod(0o711)

    @property
    def _placed(self) -> Placement:
        if self._placement is None:
            raise ServersError("the embedded servers are not running")
        return self._placement

    def _start_postgres(self) -> None:
        self.supervisor.start(postgres.program(self._placed, self.log_file(postgres.NAME)))
        self._wait_for(postgres.NAME, postgres.answers)

    def _wait_for(self, name: str, answers: Callable[[Placement], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        crashes = self.supervisor.programs()[name].crashes
        while not answers(self._placed):
            crashed = self.supervisor.programs()[name].crashes - crashes
            if crashed >= GIVE_UP_AFTER_CRASHES or time.monotonic() > deadline:
                raise ServerStartError(name, self.log_file(name))
            time.sleep(0.02)
