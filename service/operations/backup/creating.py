"""Make a backup while the service runs, so that it is whole without holding anything back.

A blob is stored before the transaction that names it, is never changed, and is deleted only after
the transaction that no longer names it. So a blob that a snapshot names is there at that moment,
and later copies of it are the same. One that is deleted before it was copied is named by no later
snapshot: another snapshot is taken, and the dump is taken from the first whose blobs are all there.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Final

from service.core.blobs import BlobNotFoundError, BlobStore
from service.models.base import utc_now
from service.operations.backup.manifests import (
    FORMAT,
    Manifest,
    StoredBlob,
    database_name,
    new_id,
    read_manifests,
    write_manifest,
)
from service.operations.backup.repository import BLOBS, BackupError, Repository, hash_file
from service.operations.backup.source import Snapshot, Source

THREADS: Final = 4  # they mostly wait for disks, or for S3
# So many blobs are copied while a snapshot is open, which keeps PostgreSQL from cleaning up.
_FEW: Final = 1_000
_ROUNDS: Final = 10


def create_backup(source: Source, repository: Repository) -> Manifest:
    """Make a backup of what is committed by now; raise `BackupError` if that is impossible.

    A backup that is interrupted is none. What it has copied is used by the next.
    """
    copy = _Copy(source.blobs, repository)
    for number in range(1, _ROUNDS + 1):
        with source.snapshot() as snapshot:
            snapshot.find_program()  # before the blobs, which may take hours
            keys = snapshot.list_keys()
            is_held = copy.count_new(keys) <= _FEW or number > 2
            if is_held and copy.add(keys):
                return _dump(source, repository, snapshot, copy, keys)
        if not is_held:
            copy.add(keys)
    raise BackupError("blobs were deleted before they could be copied; try again")


def _dump(
    source: Source, repository: Repository, snapshot: Snapshot, copy: "_Copy", keys: Sequence[str]
) -> Manifest:
    """Store the dump, and then the manifest, which makes it a backup."""
    backup_id = new_id(snapshot.created_at)
    with snapshot.dump() as run:
        database = repository.write(database_name(backup_id), run.output, check=run.finish)
    manifest = Manifest(
        format=FORMAT,
        id=backup_id,
        created_at=snapshot.created_at,
        finished_at=utc_now(),
        release=version("tallystick-server"),
        revision=snapshot.revision,
        dump_version=snapshot.find_program()[1],
        server_version=snapshot.server_version,
        audits=snapshot.count_audits(),
        database=database,
        blobs=[copy.stored[key] for key in keys if key in copy.stored],
        missing=[key for key in keys if key not in copy.stored],
        added_bytes=copy.added_bytes + database.size,
        secret_key_id=source.secret_key_id,
        encryption_key_id=source.encryption_key_id,
    )
    source.check_lock()  # without it, another process may have pruned what this backup uses
    write_manifest(repository, manifest)
    return manifest


class _Copy:
    """The blobs that are in the repository. What the newest backup has isn't copied again."""

    def __init__(self, blobs: BlobStore, repository: Repository) -> None:
        self._blobs, self._repository = blobs, repository
        self._names = set(repository.list(BLOBS))
        self.stored: dict[str, StoredBlob] = {}
        self.added_bytes = 0
        self._gone: set[str] = set()
        self._missing: set[str] = set()
        # One that can't be read, such as another installation's, must not end all backups.
        before = next(read_manifests(repository, skip=lambda _damaged: None), None)
        blobs_before = () if before is None else before.blobs
        self.stored = {blob.key: blob for blob in blobs_before if self._has(blob.sha256)}

    def count_new(self, keys: Sequence[str]) -> int:
        return sum(key not in self.stored for key in keys)

    def add(self, keys: Sequence[str]) -> bool:
        """Copy the blobs that a snapshot names; return False if one was deleted meanwhile.

        Two snapshots in a row that name a blob that isn't there mean that the service has lost it.
        """
        new = [key for key in keys if key not in self.stored and key not in self._missing]
        with ThreadPoolExecutor(THREADS) as pool:
            added = zip(new, pool.map(self._add, new), strict=True)
            gone = {key for key, is_there in added if not is_there}
        self._missing |= gone & self._gone
        self._gone = gone
        return gone <= self._missing

    def _add(self, key: str) -> bool:
        try:
            source = self._blobs.open(key)
        except BlobNotFoundError:
            return False
        with source:
            content = hash_file(source)
            if not self._has(content.sha256):
                name = self._repository.name_of(content.sha256)
                self._repository.write(name, source)
                self._names.add(name)
                self.added_bytes += content.size
        self.stored[key] = StoredBlob(key, *content)
        return True

    def _has(self, sha256: str) -> bool:
        return self._repository.name_of(sha256) in self._names
