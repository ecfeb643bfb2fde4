"""Restore a backup into an empty installation, which may be elsewhere and of a later release.

Blobs are written first and the database last, in one transaction: a restore that is interrupted
can be repeated.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import ProgrammingError

from service.core.blobs import BlobStore, local_folder
from service.core.db import list_revisions, migrate
from service.core.sealing import NOT_SEALED, Sealer
from service.models.audits.blob_keys import BLOB_FOLDERS
from service.models.operations.named_blobs import list_named_blobs
from service.operations.backup.creating import THREADS
from service.operations.backup.manifests import (
    Manifest,
    StoredBlob,
    read_manifests,
)
from service.operations.backup.programs import RESTORE, find_program
from service.operations.backup.repository import (
    BackupError,
    Content,
    DamagedError,
    Repository,
    list_all,
)
from service.operations.backup.source import make_plain_engine
from service.operations.backup.verifying import restore_database
from service.operations.maintenance.resealing import count_values

_TABLES: Final = text(
    "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    " AND relkind IN ('r', 'p')"
)
# By `usesysid`, because PostgreSQL hides the type of other roles' sessions.
_OTHERS: Final = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND usesysid IS NOT NULL"
)
_CLEAR: Final = (
    "DROP SCHEMA public CASCADE",
    "CREATE SCHEMA public",
    "GRANT USAGE ON SCHEMA public TO PUBLIC",
)


@dataclass(frozen=True)
class RestoreTarget:
    """Where to restore: the database's addresses for its owner and the service, storage, keys."""

    owner_url: str
    service_url: str
    storage_url: str
    secret_keys: Sequence[str]
    encryption_keys: Sequence[str]


class Restored(NamedTuple):
    """What a restore has found out about the keys that the service needs."""

    has_secret_key: bool
    lost_values: int


def restore_backup(
    repository: Repository, manifest: Manifest, target: RestoreTarget, *, replace: bool = False
) -> Restored:
    """Restore a backup; raise `BackupError` before anything is written if that is impossible.

    A target with tables or other blobs is refused, unless they are to be replaced.
    """
    # Made here after going back, the tables are a later release's, on which this one works.
    is_ours = manifest.release == version("tallystick-server")
    if not is_ours and manifest.revision not in list_revisions():
        raise BackupError(
            f"a later release made this backup ({manifest.release}, revision {manifest.revision});"
            " restore it with that release or a later one"
        )
    find_program(RESTORE, manifest.dump_version)
    engine = make_plain_engine(target.owner_url)
    try:
        blobs = BlobStore.from_url(target.storage_url)
        _check_empty(engine, blobs, manifest, replace=replace)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda blob: _restore_blob(repository, blobs, blob), manifest.blobs))
        _own_blobs(target.storage_url)
        if replace:
            try:
                with engine.begin() as connection:
                    for statement in _CLEAR:
                        connection.execute(text(statement))
            except ProgrammingError as error:
                raise BackupError(
                    "the role may not empty the database; create an empty one"
                ) from error
        restore_database(repository, manifest, target.owner_url)
        migrate(target.owner_url, service_role=make_url(target.service_url).username)
        signing = {Sealer([key]).key_id for key in target.secret_keys}
        opened = {Sealer([key]).key_id for key in target.encryption_keys}
        counts = count_values(engine).values()
        lost = sum(
            number
            for column in counts
            for key_id, number in column.items()
            if key_id not in opened and key_id != NOT_SEALED
        )
        return Restored(manifest.secret_key_id in signing, lost)
    finally:
        engine.dispose()


def restore_missing_blobs(
    repository: Repository, database_url: str, storage_url: str
) -> tuple[int, list[str]]:
    """Restore blobs that the database names and the storage lacks, from whichever backup has them.

    The service may run meanwhile. Returns how many were restored, and the keys of the others: no
    backup has them, or they are damaged there.
    """
    engine, blobs = make_plain_engine(database_url), BlobStore.from_url(storage_url)
    with engine.connect() as connection:
        named = set(list_named_blobs(connection))
    engine.dispose()
    missing = {key for key in named if not blobs.exists(key)}
    count = len(missing)
    for manifest in read_manifests(repository, skip=lambda _damaged: None):
        if not missing:
            break
        for blob in manifest.blobs:
            if blob.key in missing:
                with suppress(DamagedError):  # the others are still of use
                    _restore_blob(repository, blobs, blob)
                    missing.remove(blob.key)
    _own_blobs(storage_url)
    return count - len(missing), sorted(missing)


def _check_empty(engine: Engine, blobs: BlobStore, manifest: Manifest, *, replace: bool) -> None:
    with engine.connect() as connection:
        if replace:
            if connection.scalar(_OTHERS):
                raise BackupError("the database is in use; stop all processes of the service first")
            return
        if connection.scalar(_TABLES):
            raise BackupError(
                "the database isn't empty; restore into an empty one, or delete what is there with"
                " --replace"
            )
    own = {blob.key for blob in manifest.blobs}
    stored = (key for folder in BLOB_FOLDERS for key in list_all(blobs, folder))
    if list(islice((key for key in stored if key not in own), 1)):
        raise BackupError(
            "STORAGE_URL has blobs of another database; restore into an empty folder or prefix, or"
            " use --replace"
        )


def _restore_blob(repository: Repository, blobs: BlobStore, blob: StoredBlob) -> None:
    with blobs.writer(blob.key) as file:
        content = repository.read(repository.name_of(blob.sha256), file)
        if content != Content(blob.size, blob.sha256):
            raise DamagedError(f"{blob.key} was changed in the backup")


def _own_blobs(storage_url: str) -> None:
    """Give what root has written to the owner of the folder, whom the service runs as."""
    top = local_folder(storage_url)
    if top is None or os.geteuid() != 0 or not top.exists():
        return
    owner = top.stat()
    for folder, folders, files in os.walk(top):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.lstat().st_uid == 0:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
