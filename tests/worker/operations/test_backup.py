"""A backup that is made by the commands and restored on new servers is the whole service.

`reliability/test_backups.py` makes backups under load.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from click import Group
from click.testing import CliRunner, Result
from msgspec.structs import replace
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from service.cli import register
from service.config import Config
from service.core.blobs import BlobStore, FileBlobs
from service.models.operations.admin_actions import COMMAND, log_admin_action
from service.operations.backup.creating import create_backup
from service.operations.backup.manifests import (
    database_name,
    find_backup,
    list_backups,
    manifest_name,
    new_id,
    write_manifest,
)
from service.operations.backup.repository import Repository, new_key
from service.operations.backup.source import Source
from service.operations.local.servers import EmbeddedServers
from tests.databases import as_ordinary, as_owner
from tests.worker.support.stored import document, load
from worker import run_audit

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where backups go."""
    monkeypatch.setenv("BACKUP_URL", (tmp_path / "backups").as_uri())
    monkeypatch.setenv("BACKUP_KEY", new_key())
    return tmp_path / "backups"


@pytest.fixture
def repository(folder: Path) -> Repository:
    return Repository.from_environment(os.environ)


@pytest.fixture
def backup() -> Run:
    """Run a command, which has to succeed unless a status is given."""
    group = Group()
    register(group)

    def run(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(group, ["backup", *arguments], catch_exceptions=False)
        assert result.exit_code == status, result.output
        return result

    return run


def _counts(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        names = connection.scalars(
            text("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        ).all()
        return {
            name: connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0 for name in names
        }


@pytest.mark.usefixtures("folder")
def test_a_restored_backup_holds_everything_and_works(
    engine: Engine,
    backup: Run,
    new_audit: Callable[[], str],
    private_servers: EmbeddedServers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)
    with Session(engine) as session:
        log_admin_action(session, COMMAND, "purge", audit_id, {})
        session.commit()
    made = backup("create").stdout
    assert "1 audit, 2 blobs" in made
    assert "SECRET_KEY, ENCRYPTION_KEY and BACKUP_KEY" in made
    before, report = _counts(engine), document(engine, audit_id)

    monkeypatch.setenv("DATABASE_URL", private_servers.database_url)
    monkeypatch.setenv("MIGRATION_DATABASE_URL", private_servers.migration_database_url)
    monkeypatch.setenv("STORAGE_URL", (tmp_path / "restored").as_uri())
    others = FileBlobs(tmp_path / "restored")
    others.put("raw/another.jsonl", b"")
    assert "blobs of another database" in backup("restore", status=2).stderr
    others.delete("raw/another.jsonl")
    restored_with = backup("restore")
    assert "is lost" in restored_with.stdout
    assert restored_with.stderr == ""

    restored = create_engine(private_servers.database_url)
    assert _counts(restored) == before
    restored.dispose()
    # The way back on the same machine, where the service has gone on since the backup.
    others.put("raw/later.jsonl", b"")
    assert "isn't empty" in backup("restore", status=2).stderr
    backup("restore", "--replace")
    assert _counts(restored) == before
    assert document(restored, audit_id) == report
    with pytest.raises(DBAPIError, match="permission denied"), restored.begin() as connection:
        connection.execute(text("DELETE FROM admin_acts"))
    with restored.begin() as connection:
        connection.execute(text("UPDATE audits SET status = 'queued', raw_purged_at = now()"))
    run_audit(audit_id)
    assert load(restored, audit_id).status == "done"
    assert document(restored, audit_id) == report
    # A release that was gone back to makes and restores backups of the next one's tables.
    owner = create_engine(private_servers.migration_database_url)
    with owner.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    owner.dispose()
    restored.dispose()
    backup("create")
    backup("restore", "--replace")
    assert document(restored, audit_id) == report
    restored.dispose()


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.glob("*/*")}


def test_only_new_blobs_are_stored_and_all_is_encrypted(
    backup: Run, folder: Path, new_audit: Callable[[], str], blobs: BlobStore, tmp_path: Path
) -> None:
    first_id = new_audit()
    backup("create")
    before = {path: path.stat().st_mtime_ns for path in folder.glob("blobs/*")}
    run_audit(new_audit())
    backup("create", "--no-prune")
    after = {path: path.stat().st_mtime_ns for path in folder.glob("blobs/*")}
    # The two audits have the same records, which are stored once.
    assert len(after) == len(before) + 1
    assert before.items() <= after.items()
    lines = backup("list").stdout.splitlines()
    assert [line.split()[1:3] for line in lines] == [["audits", "blobs"], ["2", "3"], ["1", "1"]]
    assert "is complete: 2 audits, 3 blobs" in backup("verify").stdout
    # Both take the data folder, as every command does.
    backup("verify", "--data", str(tmp_path))
    assert backup("list", "--data", str(tmp_path)).stdout.splitlines() == lines
    content = b"".join(path.read_bytes() for path in folder.glob("*/*"))
    secrets = [first_id.encode(), blobs.get(f"raw/{first_id}.jsonl")[:40], b"worker@example.com"]
    assert [secret for secret in secrets if secret in content] == []
    assert {path.stat().st_mode & 0o077 for path in folder.glob("**/*")} == {0}


def test_verify_reports_what_is_damaged(
    backup: Run,
    folder: Path,
    repository: Repository,
    new_audit: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_audit(new_audit())
    backup("create")
    found = find_backup(repository, None)
    raw, frame = (folder / repository.name_of(blob.sha256) for blob in found.blobs[::-1])
    dump = folder / database_name(found.id)
    for path, change in ((raw, _swap), (frame, Path.unlink), (dump, _cut)):
        kept = path.read_bytes()
        change(path)
        problems = backup("verify", status=2).stderr
        assert f"backup {found.id} has 1 problem\n" in problems, problems
        path.write_bytes(kept)
    # An object in the place of another can be decrypted, and isn't what was stored.
    kept = raw.read_bytes()
    raw.write_bytes(frame.read_bytes())
    assert "it was changed" in backup("verify", status=2).stderr
    raw.write_bytes(kept)
    backup("verify")
    monkeypatch.setenv("BACKUP_KEY", new_key())
    assert "BACKUP_KEY is a different key" in backup("verify", status=2).stderr


def test_one_backup_that_cannot_be_read_leaves_the_others_usable(
    backup: Run,
    folder: Path,
    repository: Repository,
    new_audit: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A damaged manifest, and one that another installation has stored there: the newest."""
    new_audit()
    for _ in range(2):
        backup("create", "--no-prune")
    older, newer = list_backups(repository)[::-1]
    foreign = new_id(find_backup(repository, newer).finished_at)
    with monkeypatch.context() as other:
        other.setenv("BACKUP_KEY", new_key())
        another = Repository.from_environment(os.environ)
        write_manifest(another, replace(find_backup(repository, newer), id=foreign))
    _swap(folder / manifest_name(newer))
    listed = backup("list", status=2)
    assert older in listed.stdout
    assert newer not in listed.stdout
    for unread in (newer, foreign):
        assert f"{manifest_name(unread)} can't be decrypted: it is damaged" in listed.stderr
        assert f"{manifest_name(unread)} can't" in backup("verify", unread, status=2).stderr
    assert "2 backups can't be read" in listed.stderr
    made = backup("create", "--no-prune").stdout
    assert "Backup " in made
    backup("verify", older)


def test_a_swapped_database_is_named(
    backup: Run, folder: Path, repository: Repository, new_audit: Callable[[], str]
) -> None:
    backup("create", "--no-prune")
    new_audit()
    backup("create", "--no-prune")
    newer, older = (folder / database_name(each) for each in list_backups(repository))
    newer.write_bytes(older.read_bytes())
    problems = backup("verify", status=2).stderr
    assert f"the database: databases/{newer.name} isn't what this backup stored" in problems


def _swap(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


class _DeletedMeanwhile(FileBlobs):
    """A storage from which a frame is deleted just before it is copied, as its audit runs again."""

    def __init__(self, folder: Path, run_again: Callable[[], None]) -> None:
        super().__init__(folder)
        self._run_again: Callable[[], None] | None = run_again

    def open(self, key: str) -> BinaryIO:
        if key.startswith("frames/") and self._run_again is not None:
            run_again, self._run_again = self._run_again, None
            run_again()
        return super().open(key)


def test_a_blob_that_is_deleted_meanwhile_leads_to_another_snapshot(
    config: Config,
    engine: Engine,
    repository: Repository,
    new_audit: Callable[[], str],
    tmp_path: Path,
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)
    before = load(engine, audit_id).frame_key

    def run_again() -> None:
        with engine.begin() as connection:
            connection.execute(text("UPDATE audits SET status = 'queued'"))
        run_audit(audit_id)

    with Source(config) as source:
        source.blobs = _DeletedMeanwhile(tmp_path / "blobs", run_again)
        made = create_backup(source, repository)
    after = load(engine, audit_id).frame_key
    assert before != after
    assert [blob.key for blob in made.blobs if blob.key.startswith("frames/")] == [after]
    assert made.missing == []


def test_blobs_that_the_service_lost_come_back_from_a_backup(
    backup: Run,
    folder: Path,
    repository: Repository,
    blobs: BlobStore,
    new_audit: Callable[[], str],
) -> None:
    kept, key = (f"raw/{new_audit()}.jsonl" for _ in range(2))
    blobs.delete(key)
    backup("create")
    content = blobs.get(kept)
    blobs.delete(kept)
    (stored,) = (
        folder / repository.name_of(blob.sha256) for blob in find_backup(repository, None).blobs
    )
    whole = stored.read_bytes()
    _cut(stored)
    damaged = backup("restore-blobs", status=2)
    assert damaged.stdout == "0 blobs restored\n"
    assert f"{kept}: no backup has it undamaged" in damaged.stderr
    stored.write_bytes(whole)
    filled = backup("restore-blobs", status=2)
    assert filled.stdout == "1 blob restored\n"
    assert filled.stderr == f"{key}: no backup has it undamaged\nError: 1 blob is still missing\n"
    assert blobs.get(kept) == content
    assert f"{key}: the database names it, but STORAGE_URL lacks it" in backup("create").stderr
    assert f"{key}: it was already missing" in backup("verify", status=2).stderr


def test_nothing_is_restored_over_a_service_or_from_a_later_release(
    config: Config,
    backup: Run,
    repository: Repository,
    new_audit: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new_audit()
    backup("create")
    assert "the database isn't empty" in backup("restore", status=2).stderr
    assert "stop all processes" in backup("restore", "--replace", status=2).stderr
    ordinary = as_ordinary(as_owner(config.database_url))
    monkeypatch.setenv("MIGRATION_DATABASE_URL", ordinary)
    assert "stop all processes" in backup("restore", "--replace", status=2).stderr
    found = find_backup(repository, None)
    later = replace(found, id=new_id(found.finished_at), revision="9999", release="99.0")
    write_manifest(repository, later)
    refused = backup("restore", later.id, status=2).stderr
    assert "a later release made this backup (99.0, revision 9999)" in refused
    assert "no backup with this ID" in backup("restore", "20260101T000000Z-0", status=2).stderr


@pytest.mark.usefixtures("folder")
def test_only_one_backup_is_made_or_pruned_at_a_time(config: Config, backup: Run) -> None:
    with Source(config):
        for command in ("create", "prune"):
            assert "another backup of this database" in backup(command, status=2).stderr
    assert "no backup at BACKUP_URL" in backup("verify", status=2).stderr
    assert backup("prune").stdout == "0 backups deleted\n"
