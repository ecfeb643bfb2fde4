"""Find the accounts whose call store has something to do, the expensive searches rarely."""

import time
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from service.models.base import utc_now
from service.models.calls.call_files import list_due
from service.models.calls.missing_imports import list_incomplete_accounts
from service.models.calls.stored_prices import list_outdated_accounts
from service.operations.price_book import find_version

_AT_ONCE: Final = 100
_OFTEN_SECONDS: Final = 60.0
_RARELY_SECONDS: Final = 3_600.0


class DueAccounts:
    """The searches of one sweeper."""

    def __init__(self) -> None:
        self._outdated_at = self._incomplete_at = time.monotonic()

    def find(self, connection: Connection) -> Sequence[str]:
        """Return accounts with files to merge or to reprice, or with imports to add."""
        now, found = time.monotonic(), list(list_due(connection, utc_now().date(), _AT_ONCE))
        if now >= self._outdated_at:
            found += list_outdated_accounts(connection, find_version(connection), _AT_ONCE)
            self._outdated_at = now + _OFTEN_SECONDS
        if now >= self._incomplete_at:
            incomplete = list_incomplete_accounts(connection, _AT_ONCE)
            self._incomplete_at = now + (_OFTEN_SECONDS if incomplete else _RARELY_SECONDS)
            found += incomplete
        return list(dict.fromkeys(found))
