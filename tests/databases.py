"""Databases of the test servers: copies for tests that commit, and a look at what was committed.

Tests use the service's role, like the service, so that they notice a missing grant.
"""

from collections import Counter
from functools import cache
from typing import Final
from uuid import uuid4

from sqlalchemy import URL, Engine, create_engine, inspect, make_url, text

from service.core.db import migrate
from service.operations.local.postgres import DATABASE, OWNER_ROLE, ROLE

_TEMPLATE: Final = "migrated_template"


def make_database(database_url: str) -> str:
    """Copy the migrated template beside the shared database; return the copy's address."""
    name = f"live_{uuid4().hex}"
    _copy_database(database_url, _TEMPLATE, name)
    return make_url(database_url).set(database=name).render_as_string(hide_password=False)


def make_template(database_url: str) -> None:
    """Copy a migrated database to one that nobody connects to, so that it can be copied again."""
    _copy_database(database_url, DATABASE, _TEMPLATE)


def migrate_as_owner(database_url: str) -> None:
    """Create the tables for the service's role, as the service does at its start."""
    migrate(as_owner(database_url), service_role=ROLE)


def as_owner(database_url: str) -> str:
    """Return the address of the same embedded database for the owner of its tables."""
    return make_url(database_url).set(username=OWNER_ROLE).render_as_string(hide_password=False)


def as_ordinary(owner_url: str) -> str:
    """Return the address for a role that, unlike the owner, may not see what others do."""
    url = make_url(owner_url).update_query_dict({"options": "-c role=pg_signal_backend"})
    return url.render_as_string(hide_password=False)


def _copy_database(database_url: str, template: str, name: str) -> None:
    # Not from the database itself: one that is copied has no connections.
    url = make_url(as_owner(database_url)).set(database="postgres")
    with _connect_once(url).connect() as connection:
        # Half the processor time of a copy that PostgreSQL's log has, too.
        connection.execute(text("SET file_copy_method = clone"))
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"))


@cache
def _connect_once(url: URL) -> Engine:
    """Return an engine that keeps its connection: each new one costs a session of PostgreSQL."""
    return create_engine(url, isolation_level="AUTOCOMMIT", pool_pre_ping=True)


def count_rows(database_url: str) -> Counter[str]:
    """Return how many rows each table has."""
    engine = create_engine(database_url)
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        counts = {
            name: connection.scalar(text(f'SELECT count(*) FROM "{name}"')) or 0 for name in tables
        }
    engine.dispose()
    return Counter(counts)
