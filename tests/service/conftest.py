"""The application on real servers; each test runs in a savepoint that is rolled back."""

import io
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine, event, text
from sqlalchemy.orm import Session, sessionmaker

from service.config import Config
from service.core.db import make_engine, make_session_factory
from service.models.imports import span_batches
from tests.databases import make_database
from tests.service.payments.providers import SETTINGS as PROVIDERS
from tests.service.support.applications import make_application, share_application
from tests.service.support.browser import Browser
from tests.service.support.changing import change_config
from tests.service.support.described import merge
from tests.service.support.fuzzed import Target, fill
from tests.service.support.live import (
    ONE_PROCESS,
    LiveService,
    start_live_service,
    stop_live_service,
)
from tests.service.support.oauth_flow import Application, add_application, browser_of
from tests.service.support.scenes import ADMIN_TOKEN, Sessions, Tenant, add_tenant


@pytest.fixture
def config(database_url: str, redis_url: str, tmp_path: Path) -> Config:
    """Settings with limits that no test meets by accident."""
    return Config(
        secret_key="a secret key for tests, 32 or longer",
        database_url=database_url,
        redis_url=redis_url,
        storage_url=f"file://{tmp_path}/blobs",
        ingest_key_limit_per_minute=100_000,
        read_limit_per_minute=100_000,
        magic_link_limit_per_minute=100_000,
    )


@pytest.fixture(scope="session")
def engine(database_url: str, redis_url: str) -> Iterator[Engine]:
    secret = "a secret key for tests, 32 or longer"
    settings = Config(
        secret_key=secret, database_url=database_url, redis_url=redis_url, storage_url="file:///"
    )
    engine = make_engine(settings)
    yield engine
    engine.dispose()


@pytest.fixture
def sessions(engine: Engine) -> Iterator[Sessions]:
    """Sessions on one connection; what they commit is gone after the test."""
    with engine.connect() as connection:
        outer = connection.begin()
        yield sessionmaker(
            connection, expire_on_commit=False, join_transaction_mode="create_savepoint"
        )
        outer.rollback()


@pytest.fixture
def db_session(sessions: Sessions) -> Iterator[Session]:
    with sessions() as session:
        yield session


@pytest.fixture
def without_indexes(db_session: Session) -> None:
    """Let PostgreSQL take rows as they lie: in no order that a query does not ask for."""
    for way in ("indexscan", "indexonlyscan", "bitmapscan"):
        db_session.execute(text(f"SET LOCAL enable_{way} = off"))


@pytest.fixture
def statements(engine: Engine) -> Iterator[list[str]]:
    """The SQL that runs while the test does."""
    seen: list[str] = []

    def see(_c: object, _cursor: object, statement: str, *_more: object) -> None:
        if "SAVEPOINT" not in statement:
            seen.append(statement)

    event.listen(engine, "before_cursor_execute", see)
    yield seen
    event.remove(engine, "before_cursor_execute", see)


@pytest.fixture
def own_database(config: Config) -> Config:
    """Settings of a database of its own, for tests that need real commits and several sessions."""
    return replace(config, database_url=make_database(config.database_url))


@pytest.fixture
def own_sessions(own_database: Config) -> Iterator[Sessions]:
    engine = make_engine(own_database)
    yield make_session_factory(engine)
    engine.dispose()


@pytest.fixture
def make_app(
    config: Config, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Flask]:
    """Applications of the test's own with some settings changed; the newest has the limiter."""

    def make(**settings: object) -> Flask:
        return make_application(change_config(config, monkeypatch, **settings), sessions)

    return make


@pytest.fixture
def share_app(
    config: Config, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Flask]:
    """The same, shared by all tests of the process that ask for the same settings."""

    def share(**settings: object) -> Flask:
        return share_application(change_config(config, monkeypatch, **settings), sessions)

    return share


@pytest.fixture
def app(share_app: Callable[..., Flask]) -> Flask:
    return share_app()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def ada(app: Flask, sessions: Sessions) -> Browser:
    """Somebody who is signed in."""
    return Browser(app, sessions, "ada@example.org")


@pytest.fixture
def eve(app: Flask, sessions: Sessions) -> Browser:
    """Somebody else who is signed in."""
    return Browser(app, sessions, "eve@example.org")


@pytest.fixture
def document(client: FlaskClient) -> dict[str, Any]:
    """What /openapi.json says."""
    response = client.get("/openapi.json")
    assert response.status_code == 200
    assert response.mimetype == "application/json"
    found: dict[str, Any] = response.get_json()
    return found


@pytest.fixture
def admin_document(share_app: Callable[..., Flask]) -> dict[str, Any]:
    """What /admin/openapi.json says to an administrator."""
    client = share_app(admin_token=ADMIN_TOKEN).test_client()
    response = client.get("/admin/openapi.json", headers={"X-Admin-Token": ADMIN_TOKEN})
    assert (response.status_code, response.mimetype) == (200, "application/json")
    found: dict[str, Any] = response.get_json()
    return found


@pytest.fixture
def both_documents(document: dict[str, Any], admin_document: dict[str, Any]) -> dict[str, Any]:
    """Every operation, of whichever document."""
    return merge(document, admin_document)


@pytest.fixture
def tenant(sessions: Sessions) -> Tenant:
    return add_tenant(sessions)


@pytest.fixture
def application(sessions: Sessions) -> Application:
    """Registered by somebody else."""
    return add_application(sessions, add_tenant(sessions).account_id)


@pytest.fixture
def browser(client: FlaskClient, sessions: Sessions, tenant: Tenant) -> FlaskClient:
    """Signed in as the tenant."""
    browser_of(sessions, client, tenant.account_id)
    return client


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    """The folder that the application keeps its blobs in."""
    folder = tmp_path / "blobs"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def log(app: Flask) -> Iterator[io.StringIO]:
    """The log lines that the process writes, as they would reach standard error."""
    handler = next(one for one in logging.getLogger().handlers if one.get_name() == "tallystick")
    assert isinstance(handler, logging.StreamHandler)
    lines = io.StringIO()
    before = handler.setStream(lines)
    yield lines
    if before is not None:
        handler.setStream(before)


@pytest.fixture(scope="session")
def live(
    database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    """The web process as it runs in production: gunicorn, two workers, a database of its own."""
    service = start_live_service(database_url, redis_url, tmp_path_factory.mktemp("live"))
    yield service
    stop_live_service(service)


@pytest.fixture(scope="session")
def administered(
    database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    """The same with an administrator's token, and a sweeper nowhere near."""
    folder = tmp_path_factory.mktemp("administered")
    service = start_live_service(database_url, redis_url, folder, admin_token=ADMIN_TOKEN)
    yield service
    stop_live_service(service)


@pytest.fixture(scope="session")
def target(
    database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """The same with every part switched on and no limit in the way, for hostile requests."""
    folder = tmp_path_factory.mktemp("target")
    service = start_live_service(
        database_url,
        redis_url,
        folder,
        admin_token=ADMIN_TOKEN,
        **ONE_PROCESS,
        **PROVIDERS,
        magic_link_limit_per_minute=1_000_000,
    )
    yield fill(service)
    stop_live_service(service)


@pytest.fixture
def imported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let imports have the spans of the last seconds, too."""
    monkeypatch.setattr(span_batches, "LEAST_AGE", timedelta())
