"""Delete the backups that retention doesn't keep, and what only they used."""

from typing import Final

from service.operations.backup.manifests import (
    Keep,
    choose_kept,
    database_name,
    list_backups,
    manifest_name,
    read_manifest,
)
from service.operations.backup.repository import BLOBS, DATABASES, Repository

# What an interrupted backup has left is of use to the next one for a while.
GRACE_SECONDS: Final = 86_400.0


def prune_backups(repository: Repository, keep: Keep, grace_seconds: float = GRACE_SECONDS) -> int:
    """Delete old backups and return their number; the caller holds the lock of the source.

    A kept backup that can't be read raises `DamagedError` before anything is deleted, because its
    blobs are unknown. A manifest is deleted first, so that an interruption leaves no half backup.
    """
    ids = list_backups(repository)
    kept = choose_kept(ids, keep)
    used = {database_name(backup_id) for backup_id in kept}
    for backup_id in kept:
        blobs = read_manifest(repository, backup_id).blobs
        used.update(repository.name_of(blob.sha256) for blob in blobs)
    ended = [backup_id for backup_id in ids if backup_id not in kept]
    for backup_id in ended:
        repository.delete(manifest_name(backup_id))
    for folder in (DATABASES, BLOBS):
        for name in repository.list(folder, grace_seconds):
            if name not in used:
                repository.delete(name)
    return len(ended)
