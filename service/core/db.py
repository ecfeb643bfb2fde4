"""The database engine, sessions and migrations. Queries are in `models` and in the views."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from sqlalchemy import Connection, Engine, NullPool, create_engine, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session, sessionmaker

from service.config import Config
from service.core.privileges import protect_tables
from service.core.sealing import use_sealer

_MIGRATIONS: Final = Path(__file__).parents[2] / "migrations"
# An arbitrary number: every migration of this database takes the same lock.
_MIGRATION_LOCK: Final = 7_255_019_430_871


def make_engine(config: Config) -> Engine:
    """Return an engine with a bounded pool that tests connections, to survive database restarts.

    If no connection becomes free in time, it raises, so that a request gets a 503.
    """
    statement_ms = int(config.database_statement_timeout_seconds * 1000)
    engine = create_engine(
        _address(config.database_url),
        pool_size=config.database_pool_size,
        max_overflow=0,
        pool_timeout=config.database_pool_timeout_seconds,
        pool_pre_ping=True,
        pool_use_lifo=True,
        hide_parameters=True,  # an error's text must not quote what a caller sent
        connect_args={
            "connect_timeout": config.database_connect_timeout_seconds,
            "options": f"-c statement_timeout={statement_ms} -c timezone=UTC",
        },
    )
    use_sealer(engine, config)
    return engine


def make_probe_engine(config: Config) -> Engine:
    """Return an engine for health checks with its own connections, independent of a busy pool."""
    timeout = {"connect_timeout": config.database_connect_timeout_seconds}
    return create_engine(_address(config.database_url), poolclass=NullPool, connect_args=timeout)


def make_session_factory(engine: Engine) -> sessionmaker[Session]:
    """Return a factory of sessions whose objects stay readable after a commit."""
    return sessionmaker(engine, expire_on_commit=False)


def migrate_tables(config: Config) -> bool:
    """Upgrade the tables as their owner; return False if the service's role owns them."""
    owner_url = config.migration_database_url or config.database_url
    return migrate(owner_url, service_role=_address(config.database_url).username)


def migrate(database_url: str, revision: str = "head", *, service_role: str | None = None) -> bool:
    """Upgrade the tables to a revision; several processes may call this at once."""
    with _migrating(database_url) as (connection, settings):
        _run(settings, "upgrade", revision)
        return protect_tables(connection, service_role)


def downgrade(database_url: str, revision: str) -> None:
    """Downgrade the tables to a revision; `base` is the empty database."""
    with _migrating(database_url) as (_, settings):
        _run(settings, "downgrade", revision)


@contextmanager
def _migrating(database_url: str) -> Iterator[tuple[Connection, Any]]:
    """Run all migrations in one transaction, so that a failure changes nothing."""
    # Importing Alembic slows down startup, and other code doesn't need it.
    from alembic.config import Config as AlembicConfig

    settings = AlembicConfig()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    engine = create_engine(_address(database_url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        settings.attributes["connection"] = connection
        yield connection, settings


def _run(settings: Any, step: Literal["upgrade", "downgrade"], revision: str) -> None:
    from alembic import command

    getattr(command, step)(settings, revision)


def _address(database_url: str) -> URL:
    """Return the URL with the installed driver."""
    return make_url(database_url).set(drivername="postgresql+psycopg2")
