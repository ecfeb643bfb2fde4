"""One running service for the tests of this folder, repaired after each test."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Engine, delete
from sqlalchemy.orm import Session

from detectors.formats import decode_batch, encode_records
from service.config import Config
from service.core.blobs import BlobStore
from service.core.db import make_engine
from service.models import Account, Audit
from tests.databases import make_database
from tests.service.support.scenes import add_account
from tests.smtp_sink import Sink, running_sink
from tests.worker.support.mailing import BASE_URL
from tests.worker.support.system import UNLIMITED, System
from tests.worker.support.traffic import RECORDS, batch

# Short, so that a test need not wait for what it is not about. One test keeps the defaults.
SHORT: Final[dict[str, Any]] = {"LEASE_SECONDS": "3"}
_shared: Final[list[System]] = []


@contextmanager
def started_system(**options: Any) -> Iterator[System]:
    # A short path that PostgreSQL's user may pass through, unlike pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="tallystick-system-"))
    folder.chmod(0o711)
    try:
        with System(folder, **options) as system:
            yield system
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _shared_system(**options: Any) -> Iterator[System]:
    """A system for many tests, which rests from the last test of this folder on."""
    with started_system(**options) as system:
        _shared.append(system)
        yield system
        _shared.remove(system)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Let no sweeper ask the database every second during the tests of other folders."""
    if nextitem is not None and not nextitem.path.is_relative_to(Path(__file__).parent):
        for system in _shared:
            system.rest()


@pytest.fixture(scope="session")
def running_system() -> Iterator[System]:
    with _shared_system(**SHORT) as system:
        yield system


@pytest.fixture
def default_system() -> Iterator[System]:
    """The default lease, and a worker for each of three ways to die and one to spare."""
    with started_system(workers=4) as system:
        yield system


@pytest.fixture
def system(running_system: System) -> System:
    """Two workers, a sweeper, the web: all running and idle when a test begins."""
    running_system.mend()
    return running_system


@pytest.fixture(scope="session")
def sink() -> Iterator[Sink]:
    """The mail server of `mailing_system`."""
    with running_sink() as sink:
        yield sink


@pytest.fixture(scope="session")
def running_mailing_system(sink: Sink) -> Iterator[System]:
    limits = {"MAGIC_LINK_LIMIT_PER_MINUTE": UNLIMITED}
    settings = {"SMTP_URL": sink.url, "BASE_URL": BASE_URL, **limits, **SHORT}
    with _shared_system(workers=0, mail_workers=1, **settings) as system:
        yield system


@pytest.fixture
def mailing_system(running_mailing_system: System) -> System:
    """The web, a sweeper and a mail worker, without any mail when a test begins."""
    running_mailing_system.mend()
    running_mailing_system.execute("DELETE FROM mails")
    return running_mailing_system


@pytest.fixture
def web_only(running_system: System) -> System:
    """The same without workers, where audits would only take the processor's time."""
    running_system.stop_workers()
    running_system.mend(with_workers=False)
    return running_system


@pytest.fixture(scope="session")
def committed_database_url(database_url: str) -> str:
    """A database for tests of this folder, which commit, as the worker's own sessions do."""
    return make_database(database_url)


@pytest.fixture
def config(
    committed_database_url: str, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Config:
    settings = {
        "SECRET_KEY": "a secret key for tests, 32 or longer",
        "DATABASE_URL": committed_database_url,
        "REDIS_URL": redis_url,
        "STORAGE_URL": (tmp_path / "blobs").as_uri(),
        "LEASE_SECONDS": "0.6",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("service.jobs.claiming.make_engine", partial(_share_engine, "worker"))
    # A turn of housekeeping does all that is due, however busy the machine is.
    monkeypatch.setattr("service.operations.maintenance.housekeeping._TURN_SECONDS", 600)
    return Config.load()


def _share_engine(whose: str, config: Config) -> Engine:
    """Return the engine of these settings: a new one would compile every query again."""
    # Only the blobs are a test's own.
    return _make_engine(whose, replace(config, storage_url="file:///"))


@cache
def _make_engine(_whose: str, config: Config) -> Engine:
    return make_engine(config)


@pytest.fixture
def engine(config: Config) -> Iterator[Engine]:
    engine = _share_engine("test", config)
    yield engine
    with engine.begin() as connection:
        connection.execute(delete(Account).where(Account.email == "worker@example.com"))


@pytest.fixture
def other_account_id(engine: Engine) -> Iterator[str]:
    """Another account than that of `new_audit`, for as long as the test."""
    with Session(engine) as session:
        account = add_account(session, email="other@example.com")
        session.commit()
        account_id = account.id
    yield account_id
    with engine.begin() as connection:
        connection.execute(delete(Account).where(Account.id == account_id))


@pytest.fixture
def blobs(config: Config) -> BlobStore:
    return BlobStore.from_url(config.storage_url)


@pytest.fixture
def new_audit(engine: Engine, blobs: BlobStore) -> Callable[[], str]:
    """Queues an audit of one fixed batch; returns its id."""
    with Session(engine) as session:
        account = add_account(session, email="worker@example.com", report_mails="each")
        session.commit()
        account_id = account.id

    def make() -> str:
        with Session(engine) as session:
            audit = Audit(account_id=account_id, source="ingest", blob_key="", records=RECORDS)
            session.add(audit)
            session.flush()
            audit.blob_key = f"raw/{audit.id}.jsonl"
            blobs.put(audit.blob_key, encode_records(decode_batch(batch(RECORDS))))
            session.commit()
            return audit.id

    return make
