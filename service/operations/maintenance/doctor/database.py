"""PostgreSQL: reachability, version, migrations, rights, connections, clock."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from detectors.wording.figures import counted
from service.config import Config
from service.core.db import find_revision, list_revisions, make_probe_engine
from service.models import Base
from service.operations.maintenance.doctor.findings import Area, Finding, compare_clock

_AREA: Final = Area("database")
_OLDEST_VERSION: Final = 15
_BUSY_SHARE: Final = 0.8
_REJECTED: Final = ("authentication failed", "no password supplied", "no pg_hba.conf entry")
_RIGHTS: Final = text(
    "SELECT name FROM unnest(CAST(:tables AS text[])) AS name"
    " WHERE NOT coalesce(has_table_privilege(to_regclass(quote_ident(name)), 'SELECT')"
    " AND has_table_privilege(to_regclass(quote_ident(name)), 'INSERT'), false)"
)
_ROLE: Final = text(
    "SELECT rolsuper, EXISTS (SELECT FROM pg_class WHERE relkind = 'r' AND relowner = roles.oid"
    " AND relnamespace = current_schema()::regnamespace) AS owns FROM pg_roles AS roles"
    " WHERE rolname = current_user"
)
_INVALID: Final = text(
    "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
    " WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace ORDER BY relname"
)
# By `usesysid`, because PostgreSQL hides the type of other roles' sessions.
_CONNECTIONS: Final = text(
    "SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity"
    " WHERE datid IS NOT NULL AND usesysid IS NOT NULL"
)


def check_database(config: Config) -> Iterator[Finding]:
    """Connect as the service does, and look at everything that it needs."""
    engine = make_probe_engine(config)
    try:
        with engine.connect() as connection:
            yield from _check_server(connection)
            yield from _check_tables(connection)
    except OperationalError as error:
        yield _unreachable(error)
    finally:
        engine.dispose()


def _unreachable(error: OperationalError) -> Finding:
    said = str(error.orig)
    if any(reason in said for reason in _REJECTED):
        return _AREA.fail(
            "PostgreSQL rejects the user or password", "check DATABASE_URL, and pg_hba.conf"
        )
    if "does not exist" in said:
        return _AREA.fail(
            "the database or its user doesn't exist", "create them; see Two database roles"
        )
    return _AREA.fail(
        "PostgreSQL doesn't answer", "start it, and check the host and port in DATABASE_URL"
    )


def _check_server(connection: Connection) -> Iterator[Finding]:
    version = connection.scalar(text("SHOW server_version")) or ""
    number = int(connection.scalar(text("SHOW server_version_num")) or 0) // 10_000
    if number < _OLDEST_VERSION:
        yield _AREA.warn(f"PostgreSQL {version} is older than tested", "upgrade to 15 or later")
    else:
        yield _AREA.ok(f"PostgreSQL {version} answers")
    before = time.time()
    theirs = connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())"))
    yield compare_clock("PostgreSQL", float(theirs or 0), (before + time.time()) / 2)
    used, most = connection.execute(_CONNECTIONS).one()
    if used > most * _BUSY_SHARE:
        yield _AREA.warn(
            f"{used} of {most} connections are used",
            "raise max_connections, or lower DATABASE_POOL_SIZE",
        )
    else:
        yield _AREA.ok(f"{used} of {most} connections are used")


def _check_tables(connection: Connection) -> Iterator[Finding]:
    revision = find_revision(connection)
    yield _check_revision(revision, list_revisions())
    if revision is None:
        return
    if lost := connection.scalars(_RIGHTS, {"tables": sorted(Base.metadata.tables)}).all():
        yield _AREA.fail(
            f"the role in DATABASE_URL can't use {counted(len(lost), 'table')}, such as {lost[0]}",
            "run: tallystick migrate, which grants it what it needs",
        )
    else:
        yield _AREA.ok("the role in DATABASE_URL can use every table")
    yield from _check_role(connection)
    if invalid := connection.scalars(_INVALID).all():
        yield _invalid_indexes(invalid)


def _check_revision(revision: str | None, known: Sequence[str]) -> Finding:
    if revision == known[-1]:
        return _AREA.ok(f"the tables are at revision {revision}, the latest")
    if revision is None:
        return _AREA.fail("the database has no tables", "run: tallystick migrate")
    if revision in known:
        return _AREA.fail(
            f"the tables are at revision {revision}, this release needs {known[-1]}",
            "run: tallystick migrate",
        )
    return _AREA.warn(
        f"the tables are at revision {revision}, of a later release",
        "start that release; this one works until then",
    )


def _check_role(connection: Connection) -> Iterator[Finding]:
    role = connection.execute(_ROLE).one()
    if role.rolsuper:
        yield _AREA.warn(
            "the role in DATABASE_URL is a superuser", "use two roles; see Two database roles"
        )
    elif role.owns:
        yield _AREA.warn(
            "the role in DATABASE_URL owns the tables, so a leak of it can change append-only ones",
            "use two roles; see Two database roles",
        )


def _invalid_indexes(names: Sequence[str]) -> Finding:
    return _AREA.warn(
        f"invalid indexes, which a migration left when it was interrupted: {', '.join(names)}",
        "run: tallystick migrate; if they remain, REINDEX INDEX CONCURRENTLY",
    )
