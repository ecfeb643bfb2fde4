"""Backups that are made under load and restored elsewhere have every audit that was committed.

`operations/test_backup.py` makes and restores a backup of a service without load.
"""

import io
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import polars as pl
import pytest
from sqlalchemy import Engine, create_engine, text

from service.config import Config
from service.core.blobs import BlobNotFoundError, BlobStore
from service.core.db import make_session_factory
from service.core.packing import unpack
from service.errors import ServiceError
from service.models.audits.blob_keys import BLOB_FOLDERS
from service.models.identity.accounts import find_account
from service.models.operations.admin_actions import COMMAND
from service.models.operations.named_blobs import list_named_blobs
from service.operations.admin.actions import queue_rerun
from service.operations.backup.creating import create_backup
from service.operations.backup.manifests import Manifest
from service.operations.backup.repository import Repository, new_key
from service.operations.backup.restoring import RestoreTarget, restore_backup
from service.operations.backup.source import Source
from service.operations.backup.verifying import rehearse, verify_backup
from service.operations.local.servers import EmbeddedServers
from service.operations.maintenance import orphan_blobs
from service.operations.maintenance.account_deletion import erase_account
from service.operations.maintenance.housekeeping import Housekeeping
from service.operations.maintenance.orphan_blobs import OrphanBlobs
from tests.service.support.scenes import sign_in
from tests.service.support.uploads import give_credits, log_file, upload
from tests.templates import make_data_folder
from tests.worker.conftest import SHORT, started_system
from tests.worker.support.promises import Note
from tests.worker.support.system import UNLIMITED, System
from tests.worker.support.traffic import batch
from tests.worker.support.waiting import wait_until
from worker import run_audit

BACKUPS: Final = 8
RECORDS: Final = 20
UPLOADED: Final = 3
# What is stored for an audit is committed long before.
ORPHAN_SECONDS: Final = 15.0
# In whatever order the service locks rows, this doesn't wait for them.
MAKE_QUIET: Final = """
    UPDATE call_files SET created_at = now() - interval '1 hour'
    WHERE id IN (SELECT id FROM call_files WHERE replaced_at IS NULL FOR UPDATE SKIP LOCKED)
"""
MAKE_OLD: Final = """
    UPDATE audits SET finished_at = now() - interval '8 days'
    WHERE id IN (
        SELECT id FROM audits WHERE status = 'done' AND raw_purged_at IS NULL AND random() < 0.1
        FOR UPDATE SKIP LOCKED
    )
"""
AUDITS: Final = """
    SELECT audits.*, reports.document FROM audits LEFT JOIN reports ON audit_id = audits.id
"""
LIVE: Final = "SELECT blob_key, calls FROM call_files WHERE replaced_at IS NULL"


class Load:
    """What a busy service does, in threads, until it is stopped."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.accepted: list[str] = []
        self.counts: dict[str, int] = {}
        self._blobs = BlobStore.from_url(system.blobs.as_uri())
        self._sessions = make_session_factory(system.engine)
        self._random, self._seed = Random(47), 0
        self._stopping, self._lock = threading.Event(), threading.Lock()
        headers = sign_in(self._sessions, "up@example.org", system.environment["SECRET_KEY"])
        self._person = give_credits(self._sessions, "up@example.org", 1_000, headers)
        self._cleaner = OrphanBlobs(self._blobs)
        self._config = Config.from_environment(system.environment)

    @contextmanager
    def running(self) -> Iterator[None]:
        steps = (self._ingest, self._ingest, self._upload, self._rerun, self._erase, self._clean)
        threads = [threading.Thread(target=self._repeat, args=(step,)) for step in steps]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def _repeat(self, step: Callable[[], None]) -> None:
        while not self._stopping.wait(0.05):
            step()
            with self._lock:
                self.counts[step.__name__] = self.counts.get(step.__name__, 0) + 1

    def _new_body(self) -> bytes:
        with self._lock:
            self._seed += 1
            return batch(RECORDS, self._seed)

    def _ingest(self) -> None:
        response = self.system.post(self._new_body())
        assert response.status_code == 201, response.text
        self.accepted.append(response.json()["audit_id"])

    def _upload(self) -> None:
        names = (f"{time.monotonic_ns()}-{number}" for number in range(UPLOADED))
        file = b"".join(log_file(1, id=name) for name in names)
        response = upload(self.system.base_url, self._person, file)
        assert response.status_code == 201, response.text
        self.accepted.append(response.json()["audit_id"])

    def _rerun(self) -> None:
        """Audit one again, which replaces its frame as soon as it is published."""
        if not self.accepted:
            return
        audit_id = self._random.choice(self.accepted)
        with self._sessions() as session, suppress(ServiceError):
            queue_rerun(session, self._blobs, audit_id, COMMAND)
            session.commit()

    def _erase(self) -> None:
        email = f"{time.monotonic_ns()}@example.org"
        key = self.system.new_key(email)
        for _ in range(3):
            self.system.post(self._new_body(), key=key)
        self._stopping.wait(1)
        with self._sessions() as session:
            account = find_account(session, email)
            assert account is not None
            erase_account(session, self._blobs, account_id=account.id, email=email, session_id="")

    def _clean(self) -> None:
        """Let records and files of calls be old enough for housekeeping, and run a round of it."""
        self.system.execute(MAKE_OLD)
        self.system.execute(MAKE_QUIET)
        with self.system.engine.connect() as connection:
            self._cleaner.clear_page(connection)
            Housekeeping(self._config, self._blobs).take_turn(connection)
        self._stopping.wait(0.5)


@pytest.fixture
def busy_system() -> Iterator[System]:
    settings = {"UPLOAD_LIMIT_PER_MINUTE": UNLIMITED, **SHORT}
    with started_system(MAX_STARTS="100", **settings) as system:
        yield system


@pytest.mark.stress
def test_backups_under_load_have_every_committed_audit(
    busy_system: System, note: Note, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphan_blobs, "_OLD_SECONDS", ORPHAN_SECONDS)
    monkeypatch.setattr(orphan_blobs, "_INTERVAL_SECONDS", 0.0)
    repository = _repository(tmp_path)
    load = Load(busy_system)
    with load.running():
        wait_until(lambda: len(load.accepted) > 50, 120)
        made = [_back_up(busy_system, repository, load) for _ in range(BACKUPS)]
    tries, losses = 0, list[str]()
    for number, (manifest, accepted) in enumerate(made):
        assert verify_backup(repository, manifest) == []
        with _restored(repository, manifest, tmp_path / str(number)) as (engine, blobs):
            tries += len(accepted)
            losses += _find_losses(engine, blobs, accepted)
            if number == BACKUPS - 1:
                losses += _run_rest(engine, blobs, tmp_path / str(number), monkeypatch)
    assert rehearse(repository, made[-1][0]) == []
    assert min(load.counts.values()) > 2, load.counts
    note("47 backups made under load have every committed audit, and none half", tries, len(losses))


def _repository(folder: Path) -> Repository:
    url = (folder / "backups").as_uri()
    return Repository.from_environment({"BACKUP_URL": url, "BACKUP_KEY": new_key()})


def _back_up(system: System, repository: Repository, load: Load) -> tuple[Manifest, Sequence[str]]:
    """Make a backup; return it with the audits that were accepted before it began."""
    accepted = list(load.accepted)
    with Source(Config.from_environment(system.environment)) as source:
        return create_backup(source, repository), accepted


@contextmanager
def _restored(
    repository: Repository, manifest: Manifest, folder: Path
) -> Iterator[tuple[Engine, BlobStore]]:
    with _other_servers() as servers:
        target = RestoreTarget(
            owner_url=servers.migration_database_url,
            service_url=servers.database_url,
            storage_url=folder.as_uri(),
            secret_keys=["not-a-secret-" * 4],
            encryption_keys=["not-a-secret-" * 4],
        )
        assert restore_backup(repository, manifest, target) == (True, 0)
        engine = create_engine(servers.database_url)
        yield engine, BlobStore.from_url(folder.as_uri())
        engine.dispose()


def _find_losses(engine: Engine, blobs: BlobStore, accepted: Sequence[str]) -> list[str]:
    with engine.connect() as connection:
        audits = connection.execute(text(AUDITS)).all()
        files = connection.execute(text(LIVE)).all()
        named = set(list_named_blobs(connection))
    lost = [f"{audit_id} is missing" for audit_id in {*accepted} - {row.id for row in audits}]
    lost += [f"{row.id}: {flaw}" for row in audits if (flaw := _find_flaw(row, blobs))]
    lost += [file.blob_key for file in files if _count_calls(blobs, file.blob_key) != file.calls]
    stored = {key for folder in BLOB_FOLDERS for key in blobs.list_old(folder, -60)}
    return [*lost, *(named ^ stored)]


def _find_flaw(audit: Any, blobs: BlobStore) -> str | None:
    """Read what a page or another attempt would read of the audit."""
    if audit.raw_purged_at is None and audit.blob_key:
        lines = blobs.get(audit.blob_key).splitlines()
        if len(lines) != (RECORDS if audit.source == "ingest" else UPLOADED):
            return f"{len(lines)} records"
    if audit.frame_key is not None and (calls := _count_calls(blobs, audit.frame_key)) < UPLOADED:
        return f"{calls} calls"
    if audit.status in ("queued", "processing"):
        return None
    if audit.status != "done" or audit.document is None:
        return f"status {audit.status}"
    return None if msgspec.json.decode(unpack(bytes(audit.document))) else "no report"


def _count_calls(blobs: BlobStore, key: str) -> int:
    try:
        return pl.read_parquet(io.BytesIO(blobs.get(key))).height
    except BlobNotFoundError:
        return -1


def _run_rest(
    engine: Engine, blobs: BlobStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Run audits that the backup has as unfinished; return those that don't get their report."""
    settings = {"DATABASE_URL": engine.url.render_as_string(hide_password=False)}
    settings |= {"STORAGE_URL": folder.as_uri(), "SECRET_KEY": "not-a-secret-" * 4}
    for name, value in {**settings, "REDIS_URL": "redis://127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)
    queued = _list_ids(engine, "queued")
    for _ in queued:
        if left := _list_ids(engine, "queued"):
            run_audit(left[0])  # which runs those of its queue whose turn it is
    return sorted({*queued} - {*_list_ids(engine, "done")})


def _list_ids(engine: Engine, status: str) -> list[str]:
    with engine.connect() as connection:
        query = text("SELECT id FROM audits WHERE status = :status ORDER BY created_at")
        return list(connection.scalars(query, {"status": status}))


@contextmanager
def _other_servers() -> Iterator[EmbeddedServers]:
    """PostgreSQL in a folder that its user may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="tallystick-restored-"))
    folder.chmod(0o711)
    make_data_folder(folder / "var", with_tables=False)
    try:
        with EmbeddedServers(folder / "var", with_redis=False) as servers:
            yield servers
    finally:
        shutil.rmtree(folder, ignore_errors=True)
