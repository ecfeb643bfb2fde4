"""PostgreSQL and Redis, and what they know of workers, sweepers and what waits for them."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from redis import AuthenticationError, RedisError
from rq import Worker
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from detectors.wording.figures import counted
from service.config import Config
from service.core.db import find_revision, list_revisions, make_probe_engine
from service.core.redis import connect
from service.jobs.queues import MAIL_QUEUE, NOTICE_QUEUE, QUEUE_NAMES
from service.models import Base
from service.models.audits.audits import INGEST
from service.models.base import utc_now
from service.models.operations import totals
from service.operations.maintenance.doctor.findings import (
    Diagnosis,
    compare_clock,
    days_and_hours,
    fail,
    judge,
    ok,
    warn,
)
from service.operations.maintenance.sweeper import SWEEPER_LOCK

_OLDEST_POSTGRES: Final = 15
_OLDEST_REDIS: Final = (6, 2)
_BUSY_SHARE: Final = 0.8
_CONNECT_SECONDS: Final = 3.0
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
# PostgreSQL shows the two halves of the lock's number.
_SWEEPER: Final = text(
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = :high AND objid = :low)"
)
_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "audits": (QUEUE_NAMES[INGEST], "tallystick worker"),
    "mail": (MAIL_QUEUE, "tallystick worker --queue mail"),
    "notices": (NOTICE_QUEUE, "tallystick worker --queue notices"),
}
# Items that are older wait for someone who isn't there.
_LATE_SECONDS: Final = {"audits": 300.0, "mails": 60.0, "notices": 4 * 3600.0}
_STUCK_FACTOR: Final = 12


def check_database(config: Config) -> Iterator[Diagnosis]:
    """Connect as the service does, and look at everything that it needs."""
    try:
        with make_probe_engine(config).connect() as connection:
            version = connection.scalar(text("SHOW server_version")) or ""
            number = int(connection.scalar(text("SHOW server_version_num")) or 0) // 10_000
            if number < _OLDEST_POSTGRES:
                yield warn(f"PostgreSQL {version} is older than tested", "upgrade to 15 or later")
            else:
                yield ok(f"PostgreSQL {version} answers")
            before = time.time()
            theirs = connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())"))
            yield compare_clock("PostgreSQL", float(theirs or 0), (before + time.time()) / 2)
            used, most = connection.execute(_CONNECTIONS).one()
            yield judge(
                f"{used} of {most} connections are used",
                "raise max_connections, or lower DATABASE_POOL_SIZE",
                warns=used > most * _BUSY_SHARE,
            )
            yield from _check_tables(connection)
    except OperationalError as error:
        said = str(error.orig)
        if any(reason in said for reason in _REJECTED):
            what, advice = "rejects the user or password", "check DATABASE_URL, and pg_hba.conf"
            yield fail(f"PostgreSQL {what}", advice)
        elif "does not exist" in said:
            what = "the database or its user doesn't exist"
            yield fail(what, "create them; see Two database roles")
        else:
            advice = "start it, and check the host and port in DATABASE_URL"
            yield fail("PostgreSQL doesn't answer", advice)


def _check_tables(connection: Connection) -> Iterator[Diagnosis]:
    revision, known = find_revision(connection), list_revisions()
    at = f"the tables are at revision {revision}"
    if revision is None:
        yield fail("the database has no tables", "run: tallystick migrate")
        return
    if revision == known[-1]:
        yield ok(f"{at}, the latest")
    elif revision in known:
        what = f"{at}, this release needs {known[-1]}"
        yield fail(what, "run: tallystick migrate")
    else:
        advice = "start that release; this one works until then"
        yield warn(f"{at}, of a later release", advice)
    if lost := connection.scalars(_RIGHTS, {"tables": sorted(Base.metadata.tables)}).all():
        yield fail(
            f"the role in DATABASE_URL can't use {counted(len(lost), 'table')}, such as {lost[0]}",
            "run: tallystick migrate, which grants it what it needs",
        )
    else:
        yield ok("the role in DATABASE_URL can use every table")
    role, advice = connection.execute(_ROLE).one(), "use two roles; see Two database roles"
    if role.rolsuper:
        yield warn("the role in DATABASE_URL is a superuser", advice)
    elif role.owns:
        what = "owns the tables, so a leak of it can change append-only ones"
        yield warn(f"the role in DATABASE_URL {what}", advice)
    if invalid := connection.scalars(_INVALID).all():
        yield warn(
            f"invalid indexes, which an interrupted migration left: {', '.join(invalid)}",
            "run: tallystick migrate; if they remain, REINDEX INDEX CONCURRENTLY",
        )


def check_redis(config: Config) -> Iterator[Diagnosis]:
    """Connect as the service does, but with more patience."""
    redis = connect(
        config, socket_timeout=_CONNECT_SECONDS, socket_connect_timeout=_CONNECT_SECONDS
    )
    try:
        before = time.time()
        seconds, microseconds = redis.time()
        yield compare_clock("Redis", seconds + microseconds / 1e6, (before + time.time()) / 2)
        info = redis.info()
        name = "Valkey" if "valkey_version" in info else "Redis"
        words = f"{name} {info.get('valkey_version', info['redis_version'])}"
        if tuple(map(int, str(info["redis_version"]).split(".")[:2])) < _OLDEST_REDIS:
            yield warn(f"{words} is older than tested", "upgrade to 6.2 or later")
        else:
            yield ok(f"{words} answers")
        policy, most = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", 0))
        if policy != "noeviction":
            what = f"its maxmemory-policy is {policy}, so it may drop wake-ups"
            yield warn(what, "set it to noeviction")
        if most and int(info["used_memory"]) > most * _BUSY_SHARE:
            yield warn("its memory is more than 80% full", "raise maxmemory")
        alive: Counter[str] = Counter()
        for worker in Worker.all(connection=redis):
            # Redis forgets a silent worker in a minute and a half, whatever anyone's clock says.
            if redis.ttl(worker.key) > 0:
                alive.update(set(worker.queue_names()))
        for name, (queue, command) in _COMMANDS.items():
            number = counted(alive[queue], "worker") if alive[queue] else "no worker"
            found = judge(f"{number} for {name}", f"run: {command}", fails=not alive[queue])
            yield found._replace(area="workers")
    except AuthenticationError:
        yield fail("Redis rejects the user or password", "check REDIS_URL")
    except (RedisError, OSError):
        yield fail(
            "Redis doesn't answer: audits and mails start seconds late",
            "start it, and check the address in REDIS_URL",
        )
    finally:
        redis.close()


def check_work(config: Config) -> Iterator[Diagnosis]:
    """Look at the rows that wait, and for a leading sweeper."""
    try:
        with make_probe_engine(config).connect() as connection:
            yield _check_queue("audits", totals.list_waiting_audits(connection))
            yield _check_queue("mails", totals.list_waiting_mails(connection))
            yield _check_queue("notices", totals.list_waiting_notices(connection))
            high, low = divmod(SWEEPER_LOCK, 1 << 32)
            is_running = connection.scalar(_SWEEPER, {"high": high, "low": low})
            gone = "no sweeper is running: lost audits aren't retried, and nothing is cleaned up"
            found = ok("a sweeper is running")
            if not is_running:
                found = fail(gone, "run: tallystick sweeper")
            yield found._replace(area="sweeper")
    except SQLAlchemyError:
        return  # the lines about the database say why


def _check_queue(name: str, rows: Iterable[totals.Waiting]) -> Diagnosis:
    found = list(rows)
    number = sum(row.number for row in found)
    if not number:
        return ok(f"no {name} wait")
    age = max(0.0, (utc_now() - min(row.oldest_at for row in found)).total_seconds())
    wait = "waits" if number == 1 else "wait"
    return judge(
        f"{counted(number, name.removesuffix('s'))} {wait}, the oldest for {days_and_hours(age)}",
        "start more workers, and look for errors in their logs",
        warns=age >= _LATE_SECONDS[name],
        fails=age >= _LATE_SECONDS[name] * _STUCK_FACTOR,
    )
