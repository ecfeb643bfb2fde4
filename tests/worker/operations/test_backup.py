"""A backup made as in docs/operations.md and restored on new servers is the whole service."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from service.config import Config
from service.core.blobs import BlobStore
from service.models.operations.admin_actions import COMMAND, log_admin_action
from service.operations.local.embedded import EmbeddedServers
from service.operations.local.embedded.binaries import find_binaries
from tests.databases import migrate_as_owner
from tests.worker.support.stored import document, load
from worker import run_audit

PROGRAMS = find_binaries().postgres / "bin"


def _run(program: str, *arguments: str) -> None:
    subprocess.run([str(PROGRAMS / program), *arguments], check=True)


def _plain(url: str) -> str:
    """The address as PostgreSQL's own programs take it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _counts(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        names = connection.scalars(
            text("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        ).all()
        return {
            name: connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0 for name in names
        }


@pytest.mark.skipif(
    not (PROGRAMS / "pg_dump").exists(), reason="these PostgreSQL binaries lack pg_dump"
)
def test_a_restored_backup_holds_everything_and_works(
    config: Config,
    engine: Engine,
    blobs: BlobStore,
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
    before, report = _counts(engine), document(engine, audit_id)

    dump, copy = tmp_path / "tallystick.dump", tmp_path / "restored"
    _run("pg_dump", "--format=custom", f"--file={dump}", _plain(config.database_url))
    shutil.copytree(tmp_path / "blobs", copy)
    _run(
        "pg_restore",
        "--exit-on-error",
        "--no-owner",
        "--no-privileges",
        f"--dbname={_plain(private_servers.migration_database_url)}",
        str(dump),
    )
    migrate_as_owner(private_servers.database_url)

    restored = create_engine(private_servers.database_url)
    assert _counts(restored) == before
    assert document(restored, audit_id) == report
    with pytest.raises(DBAPIError, match="permission denied"), restored.begin() as connection:
        connection.execute(text("DELETE FROM admin_acts"))
    with restored.begin() as connection:
        connection.execute(text("UPDATE audits SET status = 'queued', raw_purged_at = now()"))
    monkeypatch.setenv("DATABASE_URL", private_servers.database_url)
    monkeypatch.setenv("STORAGE_URL", copy.as_uri())
    run_audit(audit_id)
    assert load(restored, audit_id).status == "done"
    assert document(restored, audit_id) == report
    restored.dispose()
