"""A busy, slow, restarting or missing database causes a 503 and a quick recovery, never a 500."""

import time
from collections.abc import Callable
from dataclasses import replace

import psycopg2
import pytest
from flask import Flask
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DataError, OperationalError

from service.app import create_app
from service.config import Config
from service.core import db
from service.core.db import make_engine, make_session_factory
from service.web.http.current import get_session, init_current
from tests.embedded.processes import wait_until
from tests.service.support.changing import change_config
from tests.service.support.scenes import INGEST, Sessions, Tenant, add_tenant, batch, error_of
from tests.silent_postgres import running_silent_postgres


def test_an_address_may_be_written_short_and_an_error_does_not_quote_what_a_caller_sent(
    config: Config,
) -> None:
    for scheme in ("postgresql", "postgresql+psycopg2", "postgres"):
        address = config.database_url.replace("postgresql+psycopg2", scheme)
        engine = make_engine(replace(config, database_url=address))
        with engine.connect() as connection:
            assert connection.scalar(text("SHOW timezone")) == "UTC"
            # Random reads are planned as those of a solid-state disk.
            assert connection.scalar(text("SHOW random_page_cost")) == "1.1"
            with pytest.raises(DataError) as caught:
                connection.execute(text("SELECT 1 / 0 WHERE :sent <> ''"), {"sent": "CANARY"})
            assert "CANARY" not in str(caught.value)
        engine.dispose()


def test_a_pool_without_a_free_connection_is_unavailable_not_a_hang(
    monkeypatch: pytest.MonkeyPatch, own_database: Config, own_sessions: Sessions
) -> None:
    tenant = add_tenant(own_sessions)
    app = create_app(
        change_config(
            own_database, monkeypatch, database_pool_size=1, database_pool_timeout_seconds=0.2
        )
    )
    with app.extensions["session_factory"]() as busy:
        busy.execute(text("SELECT 1"))
        began = time.monotonic()
        response = app.test_client().post(INGEST, json=batch(), headers=tenant.writes)
    assert time.monotonic() - began < 20  # by default, SQLAlchemy waits 30 seconds
    error_of(response, 503, "unavailable")
    assert int(response.headers["Retry-After"]) >= 1
    assert app.test_client().post(INGEST, json=batch(), headers=tenant.writes).status_code == 201


def test_a_connection_that_breaks_as_a_request_ends_harms_neither_it_nor_the_pool(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `test_database_kills.py`: the response is ready when its transaction is ended."""
    engine = make_engine(
        change_config(config, monkeypatch, database_pool_size=1, database_pool_timeout_seconds=0.2)
    )
    app = Flask(__name__)
    init_current(app, config, make_session_factory(engine))

    def break_off(_connection: object) -> None:
        raise psycopg2.DatabaseError("error with status PGRES_TUPLES_OK and no message")

    with app.app_context():
        assert get_session().scalar(text("SELECT 1")) == 1
        monkeypatch.setattr(engine.dialect, "do_rollback", break_off)
    monkeypatch.undo()
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 2")) == 2
    engine.dispose()


def test_a_statement_that_takes_too_long_is_ended(
    monkeypatch: pytest.MonkeyPatch, config: Config
) -> None:
    engine = make_engine(change_config(config, monkeypatch, database_statement_timeout_seconds=0.1))
    with pytest.raises(OperationalError, match="statement timeout"), engine.connect() as connection:
        connection.execute(text("SELECT pg_sleep(5)"))
    engine.dispose()


@pytest.mark.parametrize("is_lent", [True, False], ids=["in a request", "between requests"])
def test_a_database_that_falls_silent_is_unavailable_within_seconds(
    own_database: Config, own_sessions: Sessions, monkeypatch: pytest.MonkeyPatch, is_lent: bool
) -> None:
    """It takes connections and answers nothing, as one that stands still or is unreachable.

    Without bounds, the test would wait for as long.
    """
    monkeypatch.setattr(db, "_ASK_SECONDS", 60.0 if is_lent else -1.0)
    tenant = add_tenant(own_sessions)
    with running_silent_postgres(own_database.database_url) as (between, url):
        app = create_app(
            change_config(
                own_database, monkeypatch, database_url=url, database_statement_timeout_seconds=1.0
            )
        )
        client = app.test_client()
        assert client.post(INGEST, json=batch(), headers=tenant.writes).status_code == 201
        between.is_silent = True
        for _ in range(2):  # with a connection that was open, and with a new one
            began = time.monotonic()
            response = client.post(INGEST, json=batch(), headers=tenant.writes)
            error_of(response, 503, "unavailable")
            assert int(response.headers["Retry-After"]) >= 1
            assert time.monotonic() - began < 30
        between.is_silent = False

        def is_accepted() -> bool:
            response = client.post(INGEST, json=batch(), headers=tenant.writes)
            return response.status_code == 201

        assert wait_until(is_accepted)


def test_who_waited_for_a_silent_database_does_not_wait_again(
    monkeypatch: pytest.MonkeyPatch, own_database: Config
) -> None:
    """A request asks once more, to see whether its row was committed."""
    with running_silent_postgres(own_database.database_url) as (between, url):
        engine = make_engine(
            change_config(
                own_database, monkeypatch, database_url=url, database_statement_timeout_seconds=0.5
            )
        )
        with engine.connect() as connection:
            between.is_silent = True
            with pytest.raises(OperationalError, match="closed the connection"):
                connection.execute(text("SELECT 1"))
        began = time.monotonic()
        with pytest.raises(OperationalError, match="stays silent"):
            engine.connect()
        assert time.monotonic() - began < own_database.database_connect_timeout_seconds
        engine.dispose()


def test_connections_that_were_cut_are_replaced_before_they_are_lent(
    own_database: Config, own_sessions: Sessions
) -> None:
    tenant = add_tenant(own_sessions)
    client = create_app(own_database).test_client()
    assert client.post(INGEST, json=batch(), headers=tenant.writes).status_code == 201
    _cut_connections(own_database)
    assert client.post(INGEST, json=batch(), headers=tenant.writes).status_code == 201


def test_a_connection_that_has_just_been_tested_is_lent_without_a_query(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "_ASK_SECONDS", 3_600.0)
    engine, asked = make_engine(replace(config, database_pool_size=1)), list[object]()

    def ask(connection: object) -> bool:
        asked.append(connection)
        return True

    monkeypatch.setattr(engine.dialect.do_ping, "_ask", ask)
    for _ in range(4):
        with engine.connect() as connection:
            connection.scalar(text("SELECT 1"))
    engine.dispose()
    assert len(asked) == 1  # when it was first taken from the pool


def test_storage_that_fails_is_unavailable(share_app: Callable[..., Flask], tenant: Tenant) -> None:
    app = share_app(storage_url="file:///proc/nowhere")
    response = app.test_client().post(INGEST, json=batch(), headers=tenant.writes)
    error_of(response, 503, "unavailable")


def _cut_connections(config: Config) -> None:
    """End every other connection to this database, as a restart would."""
    engine = create_engine(config.database_url)
    others = (
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"  # waits for the end
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with engine.connect() as connection:
        connection.execute(text(others))
    engine.dispose()
