"""tallystick backup: make, list, verify, restore and prune backups at BACKUP_URL."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from detectors.wording.figures import counted
from service.cli.command import USUAL_DATA_DIR, CommandError, data_command, reach
from service.cli.output import print_table
from service.config import Config, read_secrets
from service.operations.backup.creating import create_backup
from service.operations.backup.manifests import (
    Keep,
    Manifest,
    find_backup,
    prune_backups,
    read_manifests,
)
from service.operations.backup.repository import BackupError, DamagedError, Repository, new_key
from service.operations.backup.restoring import RestoreTarget, restore_backup, restore_missing_blobs
from service.operations.backup.source import Source
from service.operations.backup.verifying import rehearse, verify_backup
from service.operations.key_files import ENCRYPTION_KEY, SECRET_KEY, KeyFiles
from service.operations.local.run_state import find_owner, find_state
from service.operations.local.servers import EmbeddedServers

_SHOWN_PROBLEMS: Final = 20
_KEYS_NOTE: Final = (
    "It doesn't contain the secrets that a restore needs: SECRET_KEY, ENCRYPTION_KEY and"
    " BACKUP_KEY. Keep them elsewhere."
)
_id_argument = click.argument("backup_id", metavar="[ID]", required=False)


@click.group()
def backup() -> None:
    """Make and restore encrypted backups of the database and the blobs.

    BACKUP_URL is where they are, BACKUP_KEY what encrypts them.
    """


@backup.command("new-key")
def print_new_key() -> None:
    """Print a new key for BACKUP_KEY."""
    click.echo(new_key())


@backup.command()
@click.option("--no-prune", is_flag=True, help="Keep all earlier backups.")
@data_command
def create(no_prune: bool, data_dir: Path | None) -> None:
    """Make a backup while the service runs.

    Then delete those that aren't kept, as `prune` does.
    """
    began = time.monotonic()
    with _storage_errors_shown(), Source(config := reach(data_dir)) as source:
        repository = _repository()
        made = create_backup(source, repository)
        seconds = time.monotonic() - began
        click.echo(f"Backup {made.id}: {_describe(made)}, {seconds:.0f} s. {_KEYS_NOTE}")
        _warn_of(f"{key}: the database names it, but STORAGE_URL lacks it" for key in made.missing)
        if not no_prune:
            _prune(repository, config)


@backup.command("list")
@data_command
def list_all(data_dir: Path | None) -> None:
    """List the backups, newest first."""
    unread: list[DamagedError] = []
    with _storage_errors_shown():
        rows = [
            {
                "id": each.id,
                "audits": each.audits,
                "blobs": len(each.blobs),
                "bytes": each.blob_bytes + each.database.size,
                "added_bytes": each.added_bytes,
                "release": each.release,
                "revision": each.revision,
            }
            for each in read_manifests(_repository(data_dir), unread.append)
        ]
    print_table(("id", "audits", "blobs", "bytes", "added_bytes", "release", "revision"), rows)
    if unread:
        _warn_of(map(str, unread))
        raise CommandError(f"{counted(len(unread), 'backup')} can't be read")


@backup.command()
@_id_argument
@click.option("--full", is_flag=True, help="Also restore the database on a PostgreSQL of its own.")
@data_command
def verify(backup_id: str | None, full: bool, data_dir: Path | None) -> None:
    """Read a backup, and check that it is as it was stored.

    By default, it is the newest.
    """
    with _storage_errors_shown():
        repository = _repository(data_dir)
        found = find_backup(repository, backup_id)
        problems = verify_backup(repository, found)
        if full and not problems:
            problems = rehearse(repository, found)
    if problems:
        _warn_of(iter(problems))
        raise CommandError(f"backup {found.id} has {counted(len(problems), 'problem')}")
    done = "can be restored, and every report can be read" if full else "is complete"
    click.echo(f"Backup {found.id} {done}: {_describe(found)}")


@backup.command()
@data_command
def prune(data_dir: Path | None) -> None:
    """Delete the backups that aren't kept.

    BACKUP_KEEP_DAYS, _WEEKS and _MONTHS set which are.
    """
    config = reach(data_dir)
    with _storage_errors_shown(), Source(config):
        click.echo(f"{counted(_prune(_repository(), config), 'backup')} deleted")


@backup.command()
@_id_argument
@click.option("--replace", is_flag=True, help="Delete what is in the database.")
@data_command
def restore(backup_id: str | None, replace: bool, data_dir: Path | None) -> None:
    """Restore a backup into an empty installation.

    By default, it is the newest. With servers of your own: into DATABASE_URL and STORAGE_URL.
    Otherwise into a new data folder for `tallystick up`. Nothing of the service may run meanwhile.
    """
    with _storage_errors_shown():
        repository = _repository()
        found = find_backup(repository, backup_id)
        began = time.monotonic()
        with _target(data_dir) as target:
            restored = restore_backup(repository, found, target, replace=replace)
    seconds = time.monotonic() - began
    click.echo(f"Restored backup {found.id}: {_describe(found)}, {seconds:.0f} s.")
    notes = []
    if not restored.has_secret_key:
        notes.append(
            "SECRET_KEY isn't the key that this backup was made with: report links and sessions"
            " stop working. Set the former key before you start the service, with `up` in the file"
            " secret_key of its folder."
        )
    if restored.lost_values:
        values = counted(restored.lost_values, "sealed value")
        notes.append(
            f"The former ENCRYPTION_KEY is needed for {values}, with `up` in the file"
            " encryption_key of its folder."
        )
    _warn_of(iter(notes))
    click.echo(f"Everything after {found.created_at:%Y-%m-%d %H:%M:%S} UTC is lost.")


@backup.command("restore-blobs")
@data_command
def restore_blobs(data_dir: Path | None) -> None:
    """Restore blobs that the database has and STORAGE_URL lacks.

    Use this after a recovery of the database to another time, or after a disk has lost files. The
    blobs come from whichever backup has them. The service may run meanwhile.
    """
    config = reach(data_dir)
    with _storage_errors_shown():
        found = restore_missing_blobs(_repository(), config.database_url, config.storage_url)
    restored, missing = found
    click.echo(f"{counted(restored, 'blob')} restored")
    if missing:
        _warn_of(f"{key}: no backup has it undamaged" for key in missing)
        are = "is" if len(missing) == 1 else "are"
        raise CommandError(f"{counted(len(missing), 'blob')} {are} still missing")


def _repository(data_dir: Path | None = None) -> Repository:
    """Open BACKUP_URL, which must not be the storage of `tallystick up` in the data folder."""
    state = (find_state(data_dir) if data_dir else None) or {}
    return Repository.from_environment({**read_secrets(os.environ), **state})


def _prune(repository: Repository, config: Config) -> int:
    keep = Keep(config.backup_keep_days, config.backup_keep_weeks, config.backup_keep_months)
    return prune_backups(repository, keep)


def _describe(found: Manifest) -> str:
    size = (found.blob_bytes + found.database.size) / 1e6
    audits, blobs = counted(found.audits, "audit"), counted(len(found.blobs), "blob")
    return f"{audits}, {blobs}, {size:,.1f} MB"


def _warn_of(problems: Iterator[str]) -> None:
    for number, problem in enumerate(problems):
        if number == _SHOWN_PROBLEMS:
            click.echo("…", err=True)
            return
        click.echo(problem, err=True)


@contextmanager
def _target(data_dir: Path | None) -> Iterator[RestoreTarget]:
    """Open what to restore into: the servers in the settings, or those of a data folder."""
    environment = read_secrets(os.environ)
    if data_dir is None and environment.get("DATABASE_URL"):
        config = reach(None)
        yield RestoreTarget(
            owner_url=config.migration_database_url or config.database_url,
            service_url=config.database_url,
            storage_url=config.storage_url,
            secret_keys=config.secret_keys,
            encryption_keys=config.encryption_keys,
        )
        return
    folder = (data_dir or USUAL_DATA_DIR).absolute()
    if folder.is_dir() and find_owner(folder) is not None:
        raise CommandError(f"tallystick is running in {folder}; stop it first")
    with EmbeddedServers(folder, with_redis=False) as servers:
        secret = _keys_of(folder, SECRET_KEY, environment)
        encryption = _keys_of(folder, ENCRYPTION_KEY, environment)
        yield RestoreTarget(
            owner_url=servers.migration_database_url,
            service_url=servers.database_url,
            storage_url=environment.get("STORAGE_URL") or (folder / "blobs").as_uri(),
            secret_keys=secret,
            encryption_keys=[*encryption, *secret],
        )


def _keys_of(folder: Path, name: str, environment: dict[str, str]) -> list[str]:
    """Return the keys that `up` will use there; it makes new ones where there is none."""
    given = (
        f"{environment.get(name.upper(), '')} {environment.get(f'{name.upper()}_FALLBACKS', '')}"
    )
    files = KeyFiles.of(folder, name)
    stored = [files.load_key()] if files.current.exists() else []
    return given.split() or [*stored, *files.load_fallbacks()]


@contextmanager
def _storage_errors_shown() -> Iterator[None]:
    """Show a failure of a disk or of S3 as one line."""
    try:
        yield
    except OSError as error:
        raise BackupError(
            f"the storage failed: {error.strerror or type(error).__name__}"
        ) from error
