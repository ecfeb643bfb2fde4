"""How often and when a key or token was last used, told to the database now and then.

A request that paid for a write would pay more for it than for its own work, so uses are counted
here until five minutes are over. A process that is killed forgets what it counted since.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from flask import Flask, current_app
from sqlalchemy.orm import Session

from service.models.access.credential_usage import Used, note_uses
from service.models.base import utc_now

INTERVAL: Final = timedelta(minutes=5)
_MAX_WRITES: Final = 20  # of one request


@dataclass
class _Counted:
    count: int
    since: datetime
    last: datetime


class Uses:
    """What one process counted and did not write yet."""

    def __init__(self) -> None:
        self._counted: dict[tuple[Used, str], _Counted] = {}
        self._lock = Lock()

    def add(self, table: Used, row_id: str, last_written: datetime | None) -> bool:
        """Count one use; returns whether it is time to write."""
        now = utc_now()
        with self._lock:
            counted = self._counted.setdefault((table, row_id), _Counted(0, now, now))
            counted.count += 1
            counted.last = now
            oldest = next(iter(self._counted.values())).since
        is_first = last_written is None or now - last_written > INTERVAL
        return is_first or now - oldest > INTERVAL

    def write(self, session: Session, limit: int = _MAX_WRITES) -> None:
        """Hand what is counted to the session, the longest waiting first."""
        taken = self._take(limit)
        # In one order, so that two processes cannot wait for each other.
        for (table, row_id), counted in sorted(taken, key=lambda one: one[0][1]):
            note_uses(session, table, row_id, counted.last, counted.count)

    def _take(self, limit: int) -> Iterable[tuple[tuple[Used, str], _Counted]]:
        with self._lock:
            taken = list(self._counted.items())[:limit]
            for key, _ in taken:
                del self._counted[key]
        return taken


def init_uses(app: Flask) -> None:
    app.extensions["uses"] = Uses()


def current_uses() -> Uses:
    uses: Uses = current_app.extensions["uses"]
    return uses


def write_rest(app: Flask) -> None:
    """What a process that ends has counted."""
    with app.extensions["session_factory"]() as session:
        uses: Uses = app.extensions["uses"]
        uses.write(session, limit=1_000)
        session.commit()
