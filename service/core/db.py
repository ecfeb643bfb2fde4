"""The database engine, sessions and migrations. Queries are in `models` and in the views."""

import errno
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from psycopg2.errors import DiskFull, LockNotAvailable
from sqlalchemy import (
    Connection,
    Engine,
    NullPool,
    PoolProxiedConnection,
    QueuePool,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session, sessionmaker

from service.config import Config
from service.config.resources import RESOURCES
from service.core.bounded_connections import BoundedConnection
from service.core.privileges import protect_tables
from service.core.sealing import use_sealer
from service.core.telemetry.counters import POOL_SECONDS
from service.errors import ConfigError

_MIGRATIONS: Final = RESOURCES / "migrations"
# An arbitrary number: every migration of this database takes the same lock.
_MIGRATION_LOCK: Final = 7_255_019_430_871
_LOCK_POLL_SECONDS: Final = 0.1
# A statement that waits for a table makes everyone after it wait, too: so it soon gives up, lets
# them pass, and is tried again, for about a minute.
_TABLE_LOCK_MS: Final = 1_000
_TABLE_LOCK_TRIES: Final = 30
_TABLE_LOCK_PAUSE_SECONDS: Final = 1.0
# How long a connection that answered needs no other query as a test, and what a test may take.
_ASK_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 2.0
# How much later than the server itself we end a statement: then the server is silent.
_SILENCE_SECONDS: Final = 1.0
# PostgreSQL's own value is that of a spinning disk. With it, an account's spend is read by reading
# the whole table once imports have come much faster than their files are merged.
_PLANNING: Final = "-c random_page_cost=1.1"


def make_engine(config: Config) -> Engine:
    """Return an engine with a bounded pool that tests connections, to survive database restarts.

    If no connection becomes free in time, or the server doesn't answer, it raises, so that a
    request gets a 503.
    """
    seconds = config.database_statement_timeout_seconds
    engine = create_engine(
        _address(config.database_url),
        poolclass=_TimedPool,
        pool_size=config.database_pool_size,
        max_overflow=0,
        pool_timeout=config.database_pool_timeout_seconds,
        pool_pre_ping=True,
        pool_use_lifo=True,
        hide_parameters=True,  # an error's text must not quote what a caller sent
        connect_args={
            "connect_timeout": config.database_connect_timeout_seconds,
            "options": f"-c statement_timeout={int(seconds * 1000)} -c timezone=UTC {_PLANNING}",
            "connection_factory": BoundedConnection.within(seconds + _SILENCE_SECONDS),
        },
    )
    engine.dialect.do_ping = _Ping(engine.dialect.do_ping)  # type: ignore[assignment]

    @event.listens_for(engine, "handle_error")
    def discard_broken(context: ExceptionContext) -> None:
        # The connection that a killed server left, where only a bare error says so: SQLAlchemy
        # knows a lost connection by the driver's texts, which don't include all of them.
        error = context.sqlalchemy_exception
        if type(error) is DatabaseError and not getattr(error.orig, "pgcode", None):
            context.is_disconnect = True

    use_sealer(engine, config)
    return engine


class _Ping:
    """Test a connection before it is lent, without a query if it was tested a moment ago.

    A server that ends a connection, or dies, sends something, and that is seen without asking.
    """

    def __init__(self, ask: Callable[[Any], bool]) -> None:
        self._ask = ask
        self._asked_at: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    def __call__(self, connection: Any) -> bool:
        now = time.monotonic()
        if now < self._asked_at.get(connection, -_ASK_SECONDS) + _ASK_SECONDS:
            poll = select.poll()
            if not connection.closed:
                poll.register(connection.fileno(), select.POLLIN)
                if not poll.poll(0):  # nothing has arrived, not even the connection's end
                    return True
        else:
            self._asked_at[connection] = now
        usual, connection.seconds = connection.seconds, _ANSWER_SECONDS
        try:
            return self._ask(connection)
        finally:
            connection.seconds = usual


class _TimedPool(QueuePool):
    """A pool that records how long each connection takes: a wait, a test, or a new one."""

    def connect(self) -> PoolProxiedConnection:
        started, outcome = time.perf_counter(), "unavailable"
        try:
            connection = super().connect()
            outcome = "ready"
        except PoolTimeoutError:
            outcome = "exhausted"
            raise
        finally:
            POOL_SECONDS.labels(outcome).observe(time.perf_counter() - started)
        return connection


def make_probe_engine(config: Config) -> Engine:
    """Return an engine for health checks with its own connections, independent of a busy pool."""
    bounds = {
        "connect_timeout": config.database_connect_timeout_seconds,
        "connection_factory": BoundedConnection.within(config.database_statement_timeout_seconds),
    }
    return create_engine(_address(config.database_url), poolclass=NullPool, connect_args=bounds)


def why_unusable(error: OperationalError) -> Literal["full", "rejected", "missing", "away"]:
    """Return why the database can't be used; while connecting, the server's code isn't known."""
    said = str(error.orig)
    if isinstance(error.orig, DiskFull) or os.strerror(errno.ENOSPC) in said:
        return "full"
    rejected = ("authentication failed", "no password supplied", "no pg_hba.conf entry")
    if any(reason in said for reason in rejected):
        return "rejected"
    return "missing" if "FATAL" in said and "does not exist" in said else "away"


def make_session_factory(engine: Engine) -> sessionmaker[Session]:
    """Return a factory of sessions whose objects stay readable after a commit."""
    return sessionmaker(engine, expire_on_commit=False)


def migrate_tables(config: Config, revision: str = "head") -> bool:
    """Upgrade the tables as their owner; return False if the service's role owns them."""
    service_role = _address(config.database_url).username
    return migrate(owner_url(config), revision, service_role=service_role)


def owner_url(config: Config) -> str:
    """Return the address with which migrations connect."""
    return config.migration_database_url or config.database_url


def migrate(database_url: str, revision: str = "head", *, service_role: str | None = None) -> bool:
    """Upgrade the tables to a revision; several processes may call this at once.

    Each migration is a transaction, so that none keeps its locks during the next. If one fails,
    those before it stay. Raises `ConfigError` if a table is in use for a minute. The tables of a
    later release stay as they are: this one works on them, so that it can be gone back to.
    """
    with _migrating(database_url) as (connection, settings):
        with connection.begin():
            current = find_revision(connection)
        if current is None or current in _list_revisions(settings):
            _retry_locks(connection, lambda: _run(settings, "upgrade", revision))
        with connection.begin():
            return protect_tables(connection, service_role)


def downgrade(database_url: str, revision: str) -> None:
    """Downgrade the tables to a revision; `base` is the empty database.

    Each migration is undone in a transaction of its own, as `migrate` runs it.
    """
    with _migrating(database_url) as (connection, settings):
        _retry_locks(connection, lambda: _run(settings, "downgrade", revision))


def _retry_locks(connection: Connection, run: Callable[[], None]) -> None:
    """Run migrations; after a lock timeout, go on with the one that was rolled back."""
    for _ in range(_TABLE_LOCK_TRIES):
        try:
            return run()
        except OperationalError as error:
            if not isinstance(error.orig, LockNotAvailable):
                raise
            connection.rollback()
        time.sleep(_TABLE_LOCK_PAUSE_SECONDS)
    raise ConfigError(
        "a transaction, such as a dump, has used a table for a minute; the migrations before"
        " this one stay: end the transaction, and run the command again"
    )


def list_undone(database_url: str, revision: str) -> tuple[str, Sequence[str]]:
    """Return the full name of a revision, and those that a downgrade to it undoes, latest first.

    `head` is the latest, of a later release too, `base` the empty database, and `-1` the one before
    that of the database.
    """
    with _migrating(database_url) as (connection, settings):
        known = _list_revisions(settings)
        current = find_revision(connection) or known[0]
    if current not in known:
        if revision == "head":
            return current, ()
        raise ConfigError(f"the database is at revision {current}, which this release doesn't know")
    here = known.index(current)
    target = _find_target(revision, known, here)
    return target, known[known.index(target) + 1 : here + 1][::-1]


def list_revisions() -> Sequence[str]:
    """Return the revisions that this release knows, oldest first."""
    return _list_revisions(_alembic_settings())


@contextmanager
def migrations_held(connection: Connection) -> Iterator[None]:
    """Let migrations wait, before they lock any table, until the block ends.

    The connection must be in autocommit mode, as that of a migration that waits.
    """
    lock = {"lock": _MIGRATION_LOCK}
    while not connection.scalar(text("SELECT pg_try_advisory_lock_shared(:lock)"), lock):
        time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        connection.execute(text("SELECT pg_advisory_unlock_shared(:lock)"), lock)


def _find_target(revision: str, known: Sequence[str], here: int) -> str:
    steps = revision.removeprefix("-")
    if revision == "head":
        return known[-1]
    if revision.startswith("-") and steps.isdecimal() and int(steps) <= here:
        return known[here - int(steps)]
    if revision not in known:
        raise ConfigError(f"unknown revision; this release knows {known[1]} to {known[-1]}")
    return revision


def write_sql(revision: str = "head") -> None:
    """Print the SQL of all migrations up to a revision, or of `from:to`, for others to run."""
    from alembic import command

    settings = _alembic_settings()
    known = _list_revisions(settings)
    path = [known.index(_find_target(name, known, 0)) for name in revision.split(":")]
    if len(path) > 2 or path != sorted(path):
        raise ConfigError("--sql prints upgrades only; name a range as from:to, earliest first")
    command.upgrade(settings, revision, sql=True)


def _list_revisions(settings: Any) -> list[str]:
    from alembic.script import ScriptDirectory

    newest_first = ScriptDirectory.from_config(settings).walk_revisions()
    return ["base", *reversed([script.revision for script in newest_first])]


def find_revision(connection: Connection) -> str | None:
    """Return the revision of the tables; None if there are none."""
    from alembic.migration import MigrationContext

    return MigrationContext.configure(connection).get_current_revision()


def _alembic_settings() -> Any:
    # Importing Alembic slows down startup, and other code doesn't need it.
    from alembic.config import Config as AlembicConfig

    settings = AlembicConfig()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return settings


@contextmanager
def _migrating(database_url: str) -> Iterator[tuple[Connection, Any]]:
    """Connect while no other process migrates; transactions wait a second for tables' locks."""
    settings = _alembic_settings()
    engine = create_engine(_address(database_url), poolclass=NullPool)
    with engine.connect() as waiting:
        # Outside of transactions: a waiting statement would have a snapshot, for which
        # `CREATE INDEX CONCURRENTLY` would wait. The lock ends with its connection.
        waiting.execution_options(isolation_level="AUTOCOMMIT")
        lock = {"lock": _MIGRATION_LOCK}
        while not waiting.scalar(text("SELECT pg_try_advisory_lock(:lock)"), lock):
            time.sleep(_LOCK_POLL_SECONDS)
        with engine.connect() as connection:

            @event.listens_for(connection, "begin")
            def limit_lock_waits(begun: Connection) -> None:
                # Nothing outside of a transaction, such as an index that is created concurrently,
                # is limited.
                driver: Any = begun.connection.driver_connection
                if not driver.autocommit:
                    begun.exec_driver_sql(f"SET LOCAL lock_timeout = {_TABLE_LOCK_MS}")

            settings.attributes["connection"] = connection
            yield connection, settings


def _run(settings: Any, step: Literal["upgrade", "downgrade"], revision: str) -> None:
    from alembic import command

    getattr(command, step)(settings, revision)
    settings.attributes["connection"].commit()  # it has looked up the version


def _address(database_url: str) -> URL:
    """Return the URL with the installed driver."""
    return make_url(database_url).set(drivername="postgresql+psycopg2")
