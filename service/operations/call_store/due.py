"""Find the accounts whose call store has something to do, the expensive searches rarely."""

import time
from collections.abc import Callable, Sequence
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


class Search:
    """A query that is repeated after a while, and sooner if it has found something."""

    def __init__(self, query: Callable[[Connection], Sequence[str]], seconds: float) -> None:
        self._query = query
        self._seconds = seconds
        self._due_at = time.monotonic()

    def find(self, connection: Connection) -> Sequence[str]:
        """Return the accounts, or none if the query is not due."""
        if time.monotonic() < self._due_at:
            return ()
        found = self._query(connection)
        self._due_at = time.monotonic() + (_OFTEN_SECONDS if found else self._seconds)
        return found


class DueAccounts:
    """The searches of one sweeper."""

    def __init__(self) -> None:
        self._searches = (
            Search(_find_outdated, _OFTEN_SECONDS),
            Search(_find_incomplete, _RARELY_SECONDS),
        )

    def find(self, connection: Connection) -> Sequence[str]:
        """Return accounts with files to merge or to reprice, or with imports to add."""
        found = list(list_due(connection, utc_now().date(), _AT_ONCE))
        for search in self._searches:
            found += search.find(connection)
        return list(dict.fromkeys(found))


def _find_outdated(connection: Connection) -> Sequence[str]:
    return list_outdated_accounts(connection, find_version(connection), _AT_ONCE)


def _find_incomplete(connection: Connection) -> Sequence[str]:
    return list_incomplete_accounts(connection, _AT_ONCE)
