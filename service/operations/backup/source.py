"""The source of a backup: one snapshot of the database, and the blobs that it names.

Only one backup of a database is made, or pruned, at a time. A backup holds migrations back, because
a migration would wait for the dump with its tables locked, and all requests with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Self

from sqlalchemy import Connection, Engine, NullPool, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from service.config import Config
from service.core.blobs import BlobStore
from service.core.db import find_revision, migrations_held
from service.core.sealing import Sealer
from service.models.operations.named_blobs import count_audits, list_named_blobs
from service.operations.backup.programs import DUMP, Running, find_program, running
from service.operations.backup.repository import BackupError

# An arbitrary number: every backup of this database takes the same lock.
_LOCK: Final = 725_503_118
_TRY_LOCK: Final = text("SELECT pg_try_advisory_lock(:lock)")
_EXPORT: Final = text("SELECT pg_export_snapshot(), now()")


class Source:
    """A running service, open for the only backup that is made or pruned at this time."""

    def __init__(self, config: Config) -> None:
        self._url = config.database_url
        self._engine = make_plain_engine(config.database_url)
        self.blobs = BlobStore.from_url(config.storage_url)
        self.secret_key_id = Sealer([config.secret_key]).key_id
        self.encryption_key_id = Sealer.from_config(config).key_id
        self._lock = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def __enter__(self) -> Self:
        if self._lock.scalar(_TRY_LOCK, {"lock": _LOCK}):
            return self
        self._lock.close()
        raise BackupError("another backup of this database is being made or pruned")

    def __exit__(self, *_: object) -> None:
        self._lock.close()
        self._engine.dispose()

    @contextmanager
    def snapshot(self) -> Iterator["Snapshot"]:
        """Open a snapshot of the database; while it is open, no migration runs."""
        with (
            migrations_held(self._lock),
            self._engine.connect() as connection,
            connection.execution_options(isolation_level="REPEATABLE READ").begin(),
        ):
            snapshot_id, created_at = connection.execute(_EXPORT).one()
            yield Snapshot(connection, self._url, str(snapshot_id), created_at)

    def check_lock(self) -> None:
        """Raise `BackupError` if the lock may have been lost, with its connection."""
        try:
            self._lock.execute(text("SELECT 1"))
        except DBAPIError as error:
            raise BackupError("the database was restarted during the backup") from error


@dataclass(frozen=True)
class Snapshot:
    """The database at one moment: everything that was committed before `created_at` is in it."""

    connection: Connection
    url: str
    id: str
    created_at: datetime

    def list_keys(self) -> list[str]:
        """Return the keys of the blobs that the service needs, in order."""
        return sorted(set(list_named_blobs(self.connection)))

    def count_audits(self) -> int:
        return count_audits(self.connection)

    @property
    def revision(self) -> str:
        found = find_revision(self.connection)
        if found is None:
            raise BackupError("the database has no tables; run: tallystick migrate")
        return found

    @property
    def server_version(self) -> int:
        """Return the server's major version."""
        return find_server_version(self.connection)

    def find_program(self) -> tuple[Path, int]:
        """Return the `pg_dump` that fits the server, and its version."""
        return find_program(DUMP, self.server_version)

    @contextmanager
    def dump(self) -> Iterator[Running]:
        """Run `pg_dump` on this snapshot; its output is the dump."""
        program, _ = self.find_program()
        options = ("--format=custom", "--compress=1", "--no-owner", "--no-privileges")
        with running(program, *options, f"--snapshot={self.id}", url=self.url) as run:
            yield run


def find_server_version(connection: Connection) -> int:
    """Return the major version of the database's server."""
    number = connection.scalar(text("SELECT current_setting('server_version_num')::int"))
    return int(number or 0) // 10_000


def make_plain_engine(database_url: str) -> Engine:
    """Return an engine without a pool and without the service's limit on statements."""
    url = make_url(database_url).set(drivername="postgresql+psycopg2")
    return create_engine(url, poolclass=NullPool, hide_parameters=True)
