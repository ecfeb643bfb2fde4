"""What a backup consists of, which backups are kept, and the end of the others."""

import io
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from service.operations.backup.repository import (
    BLOBS,
    DATABASES,
    MANIFESTS,
    BackupError,
    Content,
    DamagedError,
    Repository,
)

FORMAT: Final = 1
_ID: Final = re.compile(r"\d{8}T\d{12}Z-[0-9a-f]{8}")
# With microseconds: two backups of one second are in their order, too.
_TIME: Final = "%Y%m%dT%H%M%S%fZ"


class StoredBlob(msgspec.Struct, frozen=True, array_like=True):
    """A blob of the service, by its key there."""

    key: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One backup: a dump of the database, and every blob that the dump names.

    `created_at` is the time of the dump's snapshot: everything that was committed before is in the
    backup. `missing` are blobs that the database names and the storage didn't have. The IDs of the
    keys say which keys the service needs after a restore, without telling the keys.
    """

    format: int
    id: str
    created_at: datetime
    finished_at: datetime
    release: str
    revision: str
    dump_version: int
    server_version: int
    audits: int
    database: Content
    blobs: Sequence[StoredBlob]
    missing: Sequence[str]
    added_bytes: int
    secret_key_id: str
    encryption_key_id: str

    @property
    def blob_bytes(self) -> int:
        return sum(blob.size for blob in self.blobs)


_MANIFEST: Final = msgspec.json.Decoder(Manifest)


class Keep(NamedTuple):
    """How many days, weeks and months keep their last backup."""

    days: int
    weeks: int
    months: int


def new_id(created_at: datetime) -> str:
    return f"{created_at.astimezone(UTC).strftime(_TIME)}-{secrets.token_hex(4)}"


def time_of(backup_id: str) -> datetime:
    """Return the time of a backup's snapshot, to the microsecond."""
    return datetime.strptime(backup_id.partition("-")[0], _TIME).replace(tzinfo=UTC)


def database_name(backup_id: str) -> str:
    return f"{DATABASES}/{backup_id}.age"


def manifest_name(backup_id: str) -> str:
    return f"{MANIFESTS}/{backup_id}.age"


def list_ids(names: Iterable[str]) -> list[str]:
    """Return the IDs of the backups that have these manifests, newest first."""
    ids = (name.partition("/")[2].removesuffix(".age") for name in names)
    return sorted(filter(_ID.fullmatch, ids), reverse=True)


def list_backups(repository: Repository) -> list[str]:
    """Return the IDs of all backups, newest first. A backup without its manifest is none."""
    return list_ids(repository.list(MANIFESTS))


def read_manifests(
    repository: Repository, skip: Callable[[DamagedError], None]
) -> Iterator[Manifest]:
    """Yield the backups that can be read, newest first, and report the others."""
    for backup_id in list_backups(repository):
        try:
            found = read_manifest(repository, backup_id)
        except DamagedError as error:
            skip(error)
        else:
            yield found


def find_backup(repository: Repository, backup_id: str | None) -> Manifest:
    """Return a backup, or the newest; raise `BackupError` if there is none."""
    ids = list_backups(repository)
    if not ids:
        raise BackupError("there is no backup at BACKUP_URL")
    if backup_id is not None and backup_id not in ids:
        raise BackupError("there is no backup with this ID; see: tallystick backup list")
    return read_manifest(repository, backup_id or ids[0])


def write_manifest(repository: Repository, manifest: Manifest) -> None:
    content = zlib.compress(msgspec.json.encode(manifest), level=6)
    repository.write(manifest_name(manifest.id), io.BytesIO(content))


def read_manifest(repository: Repository, backup_id: str) -> Manifest:
    """Return the backup with this ID; raise `DamagedError` if it can't be read."""
    name, content = manifest_name(backup_id), io.BytesIO()
    repository.read(name, content)
    try:
        document = zlib.decompress(content.getvalue())
        found = _MANIFEST.decode(document)
    except (zlib.error, msgspec.DecodeError) as error:
        raise DamagedError(f"{name} can't be read: a later release may have made it") from error
    if found.format != FORMAT or found.id != backup_id:
        raise DamagedError(f"{name} is another backup's, or one of a later release")
    return found


def choose_kept(ids: Iterable[str], keep: Keep) -> set[str]:
    """Return the backups to keep: the newest, and the last of each of so many periods."""
    newest_first = sorted(ids, reverse=True)
    periods: tuple[tuple[int, Callable[[datetime], object]], ...] = (
        (keep.days, datetime.date),
        (keep.weeks, lambda time: time.isocalendar()[:2]),
        (keep.months, lambda time: (time.year, time.month)),
    )
    kept = set(newest_first[:1])
    for count, period_of in periods:
        last: dict[object, str] = {}
        for backup_id in newest_first:
            last.setdefault(period_of(time_of(backup_id)), backup_id)
        kept.update(list(last.values())[:count])
    return kept


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
