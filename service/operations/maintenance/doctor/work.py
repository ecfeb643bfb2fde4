"""What waits to be done, who leads the sweepers, and how old the last backup is."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from detectors.wording.figures import counted
from service.config import Config
from service.core.db import make_probe_engine
from service.errors import ConfigError
from service.models.base import utc_now
from service.models.operations import totals
from service.operations.backup.manifests import list_backups, time_of
from service.operations.backup.repository import BackupError, Repository
from service.operations.maintenance.doctor.findings import Area, Finding, days_and_hours
from service.operations.maintenance.sweeper import SWEEPER_LOCK

_QUEUE: Final = Area("queue")
_SWEEPER: Final = Area("sweeper")
_BACKUPS: Final = Area("backups")
# Items that are older wait for someone who isn't there.
_LATE_SECONDS: Final = {"audits": 300.0, "mails": 60.0, "notices": 4 * 3600.0}
_STUCK_FACTOR: Final = 12
_BACKUP_LATE_SECONDS: Final = 26 * 3600.0
_BACKUP_OLD_SECONDS: Final = 7 * 86_400.0
_HALF: Final = 1 << 32
# PostgreSQL shows the two halves of the lock's number.
_HOLDER: Final = text(
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = :high AND objid = :low)"
)


def check_work(config: Config) -> Iterator[Finding]:
    """Look at the rows that wait, and for a leading sweeper."""
    engine = make_probe_engine(config)
    try:
        with engine.connect() as connection:
            waiting = {
                "audits": totals.list_waiting_audits(connection),
                "mails": totals.list_waiting_mails(connection),
                "notices": totals.list_waiting_notices(connection),
            }
            for name, rows in waiting.items():
                yield _check_queue(name, rows)
            yield _check_sweeper(connection)
    except SQLAlchemyError:
        return  # the lines about the database say why
    finally:
        engine.dispose()


def _check_queue(name: str, rows: Iterable[totals.Waiting]) -> Finding:
    found = list(rows)
    number = sum(row.number for row in found)
    if not number:
        return _QUEUE.ok(f"no {name} wait")
    age = _age(min(row.oldest_at for row in found))
    wait = "waits" if number == 1 else "wait"
    number_of = counted(number, name.removesuffix("s"))
    words = f"{number_of} {wait}, the oldest for {days_and_hours(age)}"
    if age < _LATE_SECONDS[name]:
        return _QUEUE.ok(words)
    advice = "start more workers, and look for errors in their logs"
    if age < _LATE_SECONDS[name] * _STUCK_FACTOR:
        return _QUEUE.warn(words, advice)
    return _QUEUE.fail(words, advice)


def _check_sweeper(connection: Connection) -> Finding:
    high, low = divmod(SWEEPER_LOCK, _HALF)
    if connection.scalar(_HOLDER, {"high": high, "low": low}):
        return _SWEEPER.ok("a sweeper is running")
    return _SWEEPER.fail(
        "no sweeper is running: lost audits aren't retried, and nothing is cleaned up",
        "run: tallystick sweeper",
    )


def _age(moment: datetime) -> float:
    return max(0.0, (utc_now() - moment).total_seconds())


def check_backups(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the time of the newest backup, which isn't read."""
    if not environment.get("BACKUP_URL", "").strip():
        yield _BACKUPS.warn("BACKUP_URL is not set", "make backups; see Backups")
        return
    try:
        ids = list_backups(Repository.from_environment(environment))
    except (ConfigError, BackupError, OSError) as error:
        words = getattr(error, "strerror", None) or type(error).__name__
        words = str(error) if isinstance(error, ConfigError) else words
        yield _BACKUPS.fail(f"the backups can't be listed: {words}", "check BACKUP_URL")
        return
    if not ids:
        yield _BACKUPS.fail("there is no backup at BACKUP_URL", "run: tallystick backup create")
        return
    age = _age(time_of(ids[0]))
    words, advice = f"the last backup is {days_and_hours(age)} old", "run: tallystick backup create"
    if age > _BACKUP_OLD_SECONDS:
        yield _BACKUPS.fail(words, advice)
    elif age > _BACKUP_LATE_SECONDS:
        yield _BACKUPS.warn(words, advice)
    else:
        yield _BACKUPS.ok(words)
