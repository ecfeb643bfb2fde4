"""The engine, the sessions and the migrations. Queries live in `models` and in the views."""

from pathlib import Path
from typing import Final, Literal

from sqlalchemy import Engine, NullPool, create_engine, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session, sessionmaker

from service.config import Config

_MIGRATIONS: Final = Path(__file__).parents[2] / "migrations"
# Any number will do, as long as every migration of this database takes the same lock.
_MIGRATION_LOCK: Final = 7_255_019_430_871


def make_engine(config: Config) -> Engine:
    """A bounded pool that tests a connection before lending it, so that it outlives restarts.

    Where no connection comes free in time it raises, which becomes a 503 instead of a hang.
    """
    statement_ms = int(config.database_statement_timeout_seconds * 1000)
    return create_engine(
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


def make_probe_engine(config: Config) -> Engine:
    """Connections of their own for health checks: a busy pool is no dead database."""
    timeout = {"connect_timeout": config.database_connect_timeout_seconds}
    return create_engine(_address(config.database_url), poolclass=NullPool, connect_args=timeout)


def make_session_factory(engine: Engine) -> sessionmaker[Session]:
    """Sessions whose objects stay readable after the commit that ends their transaction."""
    return sessionmaker(engine, expire_on_commit=False)


def migrate(database_url: str, revision: str = "head") -> None:
    """Bring the tables up to a revision; safe to start from several processes at once."""
    _run(database_url, "upgrade", revision)


def downgrade(database_url: str, revision: str) -> None:
    """Take the tables back to a revision; `base` is the empty database."""
    _run(database_url, "downgrade", revision)


def _run(database_url: str, step: Literal["upgrade", "downgrade"], revision: str) -> None:
    """One step in one transaction, so that a failed one leaves nothing half done."""
    # Here alone: a tenth of what other processes would take to start.
    from alembic import command
    from alembic.config import Config as AlembicConfig

    settings = AlembicConfig()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    engine = create_engine(_address(database_url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        settings.attributes["connection"] = connection
        getattr(command, step)(settings, revision)


def _address(database_url: str) -> URL:
    """The address with the driver that is installed, however short it was written."""
    return make_url(database_url).set(drivername="postgresql+psycopg2")
