"""What answers over a connection: PostgreSQL, Redis, mail, the public URL, backups, Spark."""

import http.client
import os
import smtplib
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from redis import AuthenticationError, RedisError
from rq import Worker
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from detectors.wording.figures import counted
from service.config import Config
from service.core.db import find_revision, list_revisions, make_probe_engine, why_unusable
from service.core.redis import connect
from service.core.sealing import Sealer
from service.errors import ConfigError
from service.jobs.queues import MAIL_QUEUE, NOTICE_QUEUE, QUEUE_NAMES
from service.mail.delivery import check_server
from service.models import Base
from service.models.audits.audits import INGEST
from service.models.base import utc_now
from service.models.billing.payments import PROVIDERS, PaymentEvent
from service.models.operations import totals
from service.operations.backup.manifests import list_backups, time_of
from service.operations.backup.repository import BackupError, Repository
from service.operations.doctor.findings import Diagnosis, fail, judge, ok, say_age, warn
from service.operations.maintenance.resealing import count_values
from service.operations.maintenance.sweeper import SWEEPER_LOCK

_BUSY_SHARE: Final = 0.8
_UNUSABLE: Final = {
    "full": ("the disk of PostgreSQL is full", "free up space there"),
    "rejected": ("PostgreSQL rejects the user or password", "check DATABASE_URL, and pg_hba.conf"),
    "missing": ("the database or its user doesn't exist", "create them; see Two database roles"),
    "away": ("PostgreSQL doesn't answer", "start it, and check the host and port in DATABASE_URL"),
}
_SERVER: Final = text(
    "SELECT current_setting('server_version') AS version,"
    " current_setting('server_version_num')::int / 10000 AS major, rolsuper,"
    " current_setting('max_connections')::int AS most,"
    # By `usesysid`, because PostgreSQL hides the type of other roles' sessions.
    " (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL)"
    " AS used, EXISTS (SELECT FROM pg_class WHERE relkind = 'r' AND relowner = roles.oid"
    " AND relnamespace = current_schema()::regnamespace) AS owns,"
    " ARRAY(SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
    " WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace ORDER BY relname)"
    " AS invalid FROM pg_roles AS roles WHERE rolname = current_user"
)
_RIGHTS: Final = text(
    "SELECT name FROM unnest(CAST(:tables AS text[])) AS name"
    " WHERE NOT coalesce(has_table_privilege(to_regclass(quote_ident(name)), 'SELECT')"
    " AND has_table_privilege(to_regclass(quote_ident(name)), 'INSERT'), false)"
)
# PostgreSQL shows the two halves of the lock's number.
_SWEEPER: Final = text(
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = :high AND objid = :low)"
)
_SPARK_SECONDS: Final = 90
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR


def compare_clock(name: str, theirs: float, ours: float) -> Diagnosis:
    """Compare a server's clock with this machine's: leases, signatures and links rely on both."""
    gap, ahead = abs(theirs - ours), "ahead of" if theirs > ours else "behind"
    words = "agrees with" if gap < 2 else f"is {say_age(gap)} {ahead}"
    message = f"{name}'s clock {words} this machine's"
    advice = "synchronize both with NTP (systemd-timesyncd or chrony)"
    # Webhooks are refused at five minutes.
    return judge(message, advice, warns=gap >= 2, fails=gap > 60, area="clocks")


def check_database(config: Config) -> Iterator[Diagnosis]:
    """Connect as the service does, and look at everything that it needs."""
    try:
        with make_probe_engine(config).connect() as connection:
            server = connection.execute(_SERVER).one()
            words = "is older than tested" if server.major < 15 else "answers"
            message = f"PostgreSQL {server.version} {words}"
            yield judge(message, "upgrade to 15 or later", warns=server.major < 15)
            before = time.time()
            theirs = connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())"))
            yield compare_clock("PostgreSQL", float(theirs or 0), (before + time.time()) / 2)
            message = f"{server.used} of {server.most} connections are used"
            advice = "raise max_connections, or lower DATABASE_POOL_SIZE"
            yield judge(message, advice, warns=server.used > server.most * _BUSY_SHARE)
            yield from _check_tables(connection, server)
    except OperationalError as error:
        yield fail(*_UNUSABLE[why_unusable(error)])


def _check_tables(connection: Connection, server: Any) -> Iterator[Diagnosis]:
    revision, known, command = find_revision(connection), list_revisions(), "tallystick migrate"
    at, advice = f"the tables are at revision {revision}", f"run: {command}"
    if revision is None:
        yield fail("the database has no tables", advice)
        return
    if revision == known[-1]:
        yield ok(f"{at}, the latest")
    elif revision in known:
        yield fail(f"{at}, this release needs {known[-1]}", advice)
    else:
        yield warn(f"{at}, of a later release", "start that release; this one works until then")
    role, words = "the role in DATABASE_URL", "can use every table"
    if lost := connection.scalars(_RIGHTS, {"tables": sorted(Base.metadata.tables)}).all():
        words = f"can't use {counted(len(lost), 'table')}, such as {lost[0]}"
    yield judge(f"{role} {words}", f"{advice}, which grants it what it needs", fails=bool(lost))
    owns = "owns the tables, so a leak of it can change append-only ones"
    if server.rolsuper or server.owns:
        words = "is a superuser" if server.rolsuper else owns
        yield warn(f"{role} {words}", "use two roles; see Two database roles")
    if server.invalid:
        names = ", ".join(server.invalid)
        message = f"invalid indexes, which an interrupted migration left: {names}"
        yield warn(message, f"{advice}; if they remain, REINDEX INDEX CONCURRENTLY")


def check_keys(config: Config) -> Iterator[Diagnosis]:
    """Find values in the database that no key opens, as after a change of a key."""
    sealer = Sealer.from_config(config)
    try:
        counts = sum(count_values(make_probe_engine(config)).values(), Counter[str]())
    except SQLAlchemyError:
        return  # the lines about the database say why
    lost = sum(number for key_id, number in counts.items() if not sealer.has_key(key_id))
    message = (
        f"no key opens {counted(lost, 'sealed value')}"
        if lost
        else "every sealed value has its key"
    )
    advice = "add the key that was replaced to ENCRYPTION_KEY_FALLBACKS; see Rotating secrets"
    yield judge(message, advice, fails=lost > 0)


def check_redis(config: Config) -> Iterator[Diagnosis]:
    """Connect as the service does, but with more patience."""
    try:
        with closing(connect(config, socket_timeout=3.0, socket_connect_timeout=3.0)) as redis:
            before = time.time()
            seconds, microseconds = redis.time()
            yield compare_clock("Redis", seconds + microseconds / 1e6, (before + time.time()) / 2)
            info = redis.info()
            name = "Valkey" if "valkey_version" in info else "Redis"
            is_old = tuple(map(int, str(info["redis_version"]).split(".")[:2])) < (6, 2)
            version = info.get("valkey_version", info["redis_version"])
            message = f"{name} {version} {'is older than tested' if is_old else 'answers'}"
            yield judge(message, "upgrade to 6.2 or later", warns=is_old)
            policy, most = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", 0))
            if policy != "noeviction":
                message = f"its maxmemory-policy is {policy}, so it may drop wake-ups"
                yield warn(message, "set it to noeviction")
            if most and int(info["used_memory"]) > most * _BUSY_SHARE:
                yield warn("its memory is more than 80% full", "raise maxmemory")
            # Redis forgets a silent worker in a minute and a half, whatever anyone's clock says.
            alive = [one for one in Worker.all(connection=redis) if redis.ttl(one.key) > 0]
        queues = Counter(name for worker in alive for name in set(worker.queue_names()))
        for name, queue, options in (
            ("audits", QUEUE_NAMES[INGEST], ""),
            ("mail", MAIL_QUEUE, " --queue mail"),
            ("notices", NOTICE_QUEUE, " --queue notices"),
        ):
            number = counted(queues[queue], "worker") if queues[queue] else "no worker"
            message, advice = f"{number} for {name}", f"run: tallystick worker{options}"
            yield judge(message, advice, fails=not queues[queue], area="workers")
    except AuthenticationError:
        yield fail("Redis rejects the user or password", "check REDIS_URL")
    except (RedisError, OSError):
        message = "Redis doesn't answer: audits and mails start seconds late"
        yield fail(message, "start it, and check the address in REDIS_URL")


def check_work(config: Config) -> Iterator[Diagnosis]:
    """Look at the rows that wait, and for a leading sweeper."""
    try:
        with make_probe_engine(config).connect() as connection:
            yield _check_queue("audits", totals.list_waiting_audits(connection), 300.0)
            yield _check_queue("mails", totals.list_waiting_mails(connection), 60.0)
            yield _check_queue("notices", totals.list_waiting_notices(connection), 4 * _HOUR)
            high, low = divmod(SWEEPER_LOCK, 1 << 32)
            is_running = connection.scalar(_SWEEPER, {"high": high, "low": low})
            gone = "no sweeper is running: lost audits aren't retried, and nothing is cleaned up"
            message = "a sweeper is running" if is_running else gone
            yield judge(message, "run: tallystick sweeper", fails=not is_running, area="sweeper")
    except SQLAlchemyError:
        return  # the lines about the database say why


def _check_queue(name: str, rows: Iterable[totals.Waiting], late: float) -> Diagnosis:
    """Items that are older than so many seconds wait for someone who isn't there."""
    found = list(rows)
    number = sum(row.number for row in found)
    if not number:
        return ok(f"no {name} wait")
    age = max(0.0, (utc_now() - min(row.oldest_at for row in found)).total_seconds())
    wait = f"{counted(number, name.removesuffix('s'))} {'waits' if number == 1 else 'wait'}"
    message = f"{wait}, the oldest for {say_age(age)}"
    advice = "start more workers, and look for errors in their logs"
    return judge(message, advice, warns=age >= late, fails=age >= 12 * late)


def check_mail(config: Config) -> Iterator[Diagnosis]:
    """Connect and sign in to the mail server, without sending anything."""
    if not config.smtp_url:
        yield ok(f"mail is written to the folder {Path(config.outbox_folder).name}")
        return
    try:
        check_server(config)
        yield ok("the mail server answers")
    except smtplib.SMTPAuthenticationError:
        yield fail("the mail server rejects the user or password", "check SMTP_URL")
    except ssl.SSLError:
        yield fail("the mail server's certificate isn't valid", "check the host in SMTP_URL")
    except OSError as error:
        advice = "check the host and port in SMTP_URL, and the firewall; mails wait in the outbox"
        yield fail(f"the mail server can't be used ({type(error).__name__})", advice)


def check_web(config: Config) -> Iterator[Diagnosis]:
    """Ask the public URL for its health, as a client would."""
    parts = urlsplit(config.base_url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        with closing(connect(parts.hostname or "", parts.port, timeout=10.0)) as connection:
            connection.connect()
            if isinstance(connection.sock, ssl.SSLSocket):
                ends = str((connection.sock.getpeercert() or {}).get("notAfter", ""))
                left = ssl.cert_time_to_seconds(ends) - time.time()
                message = f"the certificate of BASE_URL is valid for {say_age(left)}"
                advice = "renew it, and check why that isn't automatic"
                yield judge(message, advice, warns=left < 14 * _DAY)
            accepted = {"Accept": "application/json"}
            connection.request("GET", f"{parts.path}/healthz", headers=accepted)
            status = connection.getresponse().status
        is_ok = status == http.HTTPStatus.OK
        message = "BASE_URL answers" if is_ok else f"BASE_URL/healthz returns {status}"
        yield judge(message, "check the proxy's configuration", fails=not is_ok)
    except ssl.SSLCertVerificationError as error:
        yield fail(f"the certificate of BASE_URL isn't valid: {error.verify_message}", "renew it")
    except (OSError, http.client.HTTPException) as error:
        advice = "start the web process, and check the proxy and the host's address"
        yield fail(f"BASE_URL doesn't answer ({type(error).__name__})", advice)


def check_payments(config: Config) -> Iterator[Diagnosis]:
    """Say when a provider that is set up last sent an event; the service calls no provider."""
    newest = select(func.max(PaymentEvent.received_at))
    try:
        for name in PROVIDERS:
            if getattr(config, f"{name}_webhook_secret", ""):
                with make_probe_engine(config).connect() as connection:
                    at = connection.scalar(newest.where(PaymentEvent.provider == name))
                if at is None:
                    advice = f"send a test event to BASE_URL/api/v1/webhooks/{name}"
                    yield warn(f"{name} has never sent an event", advice)
                else:
                    age = say_age((utc_now() - at).total_seconds())
                    yield ok(f"{name} sent its last event {age} ago")
    except SQLAlchemyError:
        return  # the lines about the database say why


def check_backups(environment: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Look at the time of the newest backup, which isn't read."""
    advice = "run: tallystick backup create"
    if not environment.get("BACKUP_URL", "").strip():
        yield warn("BACKUP_URL is not set", "make backups; see Backups")
        return
    try:
        if not (ids := list_backups(Repository.from_environment(environment))):
            yield fail("there is no backup at BACKUP_URL", advice)
            return
        age = max(0.0, (utc_now() - time_of(ids[0])).total_seconds())
        message = f"the last backup is {say_age(age)} old"
        yield judge(message, advice, warns=age > 26 * _HOUR, fails=age > 7 * _DAY)
    except (ConfigError, BackupError, OSError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        reason = str(error) if isinstance(error, ConfigError) else reason
        yield fail(f"the backups can't be listed: {reason}", "check BACKUP_URL")


def check_spark(config: Config) -> Iterator[Diagnosis]:
    """Run a small job in a process of its own: the cluster answers, versions and packages fit."""
    settings = {"SPARK_REMOTE": config.spark_remote, "SPARK_MASTER": config.spark_master}
    if not any(settings.values()):
        return
    given = {**os.environ, **settings}
    try:
        done = subprocess.run(
            (sys.executable, "-m", "detectors.distributed.spark"),
            env={name: value for name, value in given.items() if value or name not in settings},
            capture_output=True,
            timeout=_SPARK_SECONDS,
            check=False,
            text=True,
        )
    except subprocess.TimeoutExpired:
        message = f"a small job on Spark didn't end within {_SPARK_SECONDS} seconds"
        yield fail(message, "look whether the cluster has free cores")
        return
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if last and done.returncode == 0:
        yield ok(last)
    elif last and done.returncode == 1:
        message, _, advice = last.partition(". ")
        yield fail(message, advice.rstrip(".") or "see docs/spark.md")
    else:
        advice = "install 'tallystick-server[spark]' beside the service; see docs/spark.md"
        yield fail("a small job on Spark failed", advice)
