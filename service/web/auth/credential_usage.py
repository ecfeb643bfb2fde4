"""Count the uses of keys and tokens in memory, and write them to the database every five minutes.

A write per request would cost more than the request itself. A process that is killed loses the
uses it has not written yet.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from flask import Flask, current_app
from sqlalchemy import func, update
from sqlalchemy.orm import Session

from service.models.access.credentials import IngestKey, ReadToken
from service.models.access.oauth import OAuthToken
from service.models.base import utc_now

INTERVAL: Final = timedelta(minutes=5)
_MAX_WRITES: Final = 20  # per request

CredentialTable = type[IngestKey] | type[ReadToken] | type[OAuthToken]


@dataclass
class _Counted:
    count: int
    since: datetime
    last: datetime


class CredentialUsage:
    """The uses that this process has counted and not yet written."""

    def __init__(self) -> None:
        self._counted: dict[tuple[CredentialTable, str], _Counted] = {}
        self._lock = Lock()

    def add(self, table: CredentialTable, row_id: str, last_written: datetime | None) -> bool:
        """Count one use; return whether it is time to write."""
        now = utc_now()
        with self._lock:
            counted = self._counted.setdefault((table, row_id), _Counted(0, now, now))
            counted.count += 1
            counted.last = now
            oldest = next(iter(self._counted.values())).since
        is_first = last_written is None or now - last_written > INTERVAL
        return is_first or now - oldest > INTERVAL

    def write(self, session: Session, limit: int = _MAX_WRITES) -> None:
        """Write counted uses to the database, oldest first."""
        with self._lock:
            taken = list(self._counted.items())[:limit]
            for key, _ in taken:
                del self._counted[key]
        # Updating rows in a fixed order prevents deadlocks between processes.
        for (table, row_id), counted in sorted(taken, key=lambda item: item[0][1]):
            # Add uses to a credential's row; do nothing if it was deleted in the meantime.
            latest = func.greatest(table.last_used_at, counted.last)  # ignores NULL
            values = {"last_used_at": latest, "uses": table.uses + counted.count}
            session.execute(update(table).where(table.id == row_id).values(values))


def init_credential_usage(app: Flask) -> None:
    app.extensions["credential_usage"] = CredentialUsage()


def current_credential_usage() -> CredentialUsage:
    usage: CredentialUsage = current_app.extensions["credential_usage"]
    return usage


def write_remaining_usage(app: Flask) -> None:
    """Write all counted uses before the process ends."""
    with app.extensions["session_factory"]() as session:
        usage: CredentialUsage = app.extensions["credential_usage"]
        usage.write(session, limit=1_000)
        session.commit()
