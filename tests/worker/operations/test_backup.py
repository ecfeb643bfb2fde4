"""A backup that is made by the commands and restored on new servers is the whole service."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click import Group
from click.testing import CliRunner, Result
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from service.cli import register
from service.models.operations.admin_actions import COMMAND, log_admin_action
from service.operations.backup.repository import Repository, new_key
from service.operations.local.embedded import EmbeddedServers
from tests.worker.support.stored import document, load
from worker import run_audit


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where backups go."""
    monkeypatch.setenv("BACKUP_URL", (tmp_path / "backups").as_uri())
    monkeypatch.setenv("BACKUP_KEY", new_key())
    return tmp_path / "backups"


@pytest.fixture
def repository(folder: Path) -> Repository:
    import os

    return Repository.from_environment(os.environ)


@pytest.fixture
def backup() -> Callable[..., Result]:
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
    backup: Callable[..., Result],
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
    assert "1 audits, 2 blobs" in made
    assert "SECRET_KEY, ENCRYPTION_KEY and BACKUP_KEY" in made
    before, report = _counts(engine), document(engine, audit_id)

    monkeypatch.setenv("DATABASE_URL", private_servers.database_url)
    monkeypatch.setenv("MIGRATION_DATABASE_URL", private_servers.migration_database_url)
    monkeypatch.setenv("STORAGE_URL", (tmp_path / "restored").as_uri())
    restored_with = backup("restore")
    assert "is lost" in restored_with.stdout
    assert restored_with.stderr == ""

    restored = create_engine(private_servers.database_url)
    assert _counts(restored) == before
    assert document(restored, audit_id) == report
    with pytest.raises(DBAPIError, match="permission denied"), restored.begin() as connection:
        connection.execute(text("DELETE FROM admin_acts"))
    with restored.begin() as connection:
        connection.execute(text("UPDATE audits SET status = 'queued', raw_purged_at = now()"))
    run_audit(audit_id)
    assert load(restored, audit_id).status == "done"
    assert document(restored, audit_id) == report
    restored.dispose()
