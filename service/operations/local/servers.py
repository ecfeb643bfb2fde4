"""The embedded servers of one data folder, from start to stop."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from pwd import struct_passwd
from signal import SIGINT, SIGKILL
from typing import Self

import psutil

from service.operations.local import postgres, valkey
from service.operations.local.handle import ServersError, ServerStartError, Supervisor
from service.operations.local.placement import Placement, find_binaries, place
from service.operations.local.run_state import lock_folder

STOP_SECONDS = 15.0
_SERVERS = frozenset({"postgres", "initdb", "valkey-server"})


class EmbeddedServers:
    """PostgreSQL and Valkey in a data folder, unless they run elsewhere.

    This process owns the folder from start to stop, and `supervisor` is for its own programs too.
    Everything ends with this process, however it ends.
    """

    supervisor: Supervisor
    notices: list[str]  # to show to the person who started this
    database_url: str = ""  # for the service's role, which owns nothing
    migration_database_url: str = ""  # for the owner of the tables
    redis_url: str = ""
    _placement: Placement | None = None
    # For another user that uses the servers, and open files that the supervisor keeps.
    _programs_user: struct_passwd | None = None
    _kept_open: tuple[int, ...] = ()

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

        Raises `ServersError` with one line that says what is wrong, such as another owner.
        """
        self.notices = []
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
        (self.data_dir / "log").mkdir(mode=0o700, exist_ok=True)
        lock = self._at_stop.enter_context(lock_folder(self.data_dir))
        placement = None
        if self._with_postgres or self._with_redis:
            binaries = find_binaries(with_valkey=self._with_redis)
            placement = place(self.data_dir, binaries, self.notices, self._programs_user)
            self._placement = placement
            if placement.sockets.parent != placement.folder:
                self._at_stop.callback(shutil.rmtree, placement.sockets, ignore_errors=True)
            stop_leftovers(placement.folder, placement.user)
        self.supervisor = Supervisor(self.data_dir / "log", (lock, *self._kept_open))
        self._at_stop.callback(self.supervisor.close)
        if placement and self._with_redis:
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
        deadline = time.monotonic() + 60.0
        crashes = self.supervisor.programs()[name].crashes
        while not answers():
            crashed = self.supervisor.programs()[name].crashes - crashes
            if crashed >= most_crashes or time.monotonic() > deadline:
                raise ServerStartError(name, self.log_file(name))
            time.sleep(0.02)


def stop_leftovers(folder: Path, user: struct_passwd | None) -> None:
    """Stop servers of the folder that outlived their supervisor; use SIGKILL if they are slow.

    PID files aren't trusted, because process IDs are reused: a leftover is a process of the
    servers' user that runs one of their programs with a folder in this one as an argument or, like
    PostgreSQL's sessions, as its working directory. psutil checks its start time before a signal.
    """
    user_id, leftovers = user.pw_uid if user else os.geteuid(), []
    for process in psutil.process_iter(["cmdline", "cwd", "name", "uids"]):
        found = process.info
        words = (*(found["cmdline"] or ()), found["cwd"] or "")
        is_server = found["name"] in _SERVERS and found["uids"] and found["uids"].real == user_id
        if is_server and folder in (Path(word).parent for word in words):
            leftovers.append(process)
    for number in (SIGINT, SIGKILL):  # for PostgreSQL, the former is the "fast" shutdown
        for process in leftovers:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        _, leftovers = psutil.wait_procs(leftovers, timeout=STOP_SECONDS)
