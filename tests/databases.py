"""Databases of the test servers: copies for tests that commit, and a look at what was committed.

Tests use the service's role, like the service, so that they notice a missing grant.
"""

from collections import Counter
from functools import cache
from typing import Final
from uuid import uuid4

from sqlalchemy import create_engine, inspect, make_url, text

from service.core.db import migrate
from service.operations.local.embedded.postgres import OWNER_ROLE, ROLE

_TEMPLATE: Final = "migrated_template"


def make_database(database_url: str) -> str:
    """Copy a migrated database beside the shared one; return the copy's address."""
    make_template(database_url)
    name = f"live_{uuid4().hex}"
    _create_database(database_url, f"{name} TEMPLATE {_TEMPLATE}")
    return _beside(database_url, name)


@cache
def make_template(database_url: str) -> None:
    """Migrate a database that nobody is connected to, so that PostgreSQL can copy it."""
    owner = create_engine(as_owner(database_url))
    with owner.connect() as connection:
        known = text("SELECT count(*) FROM pg_database WHERE datname = :name")
        is_made = connection.scalar(known, {"name": _TEMPLATE})
    owner.dispose()
    if not is_made:
        _create_database(database_url, _TEMPLATE)
        migrate_as_owner(_beside(database_url, _TEMPLATE))


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


def _create_database(database_url: str, what: str) -> None:
    engine = create_engine(as_owner(database_url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {what}"))
    engine.dispose()


def _beside(database_url: str, name: str) -> str:
    return make_url(database_url).set(database=name).render_as_string(hide_password=False)


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
