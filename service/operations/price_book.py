"""The prices that audits use: the latest update that a sweeper stored, or the installed ones.

The price book is imported where it is used, because it takes half a second and most processes of
the web never need it.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from importlib.metadata import version
from threading import Lock
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection

from service.models.base import Executor
from service.models.operations import price_updates

if TYPE_CHECKING:
    from detectors.prices.book import PriceBook
    from detectors.prices.updates import Update

# Another version may read updates differently, so each has its own.
VERSION: Final = version("genai-prices")


class _LatestUpdate:
    """The latest update that this process has read, because reading takes longer than an audit."""

    def __init__(self) -> None:
        self._fetched_at: datetime | None = None
        self._update: Update | None = None
        self._lock = Lock()

    def get(self, connection: Executor) -> "Update | None":
        """Return the stored update; None if there is none, or if it is damaged."""
        from detectors.prices.updates import read

        with self._lock:
            if price_updates.find_fetched_at(connection, VERSION) != self._fetched_at:
                found = price_updates.find_update(connection, VERSION)
                self._fetched_at, content = found or (None, b"")
                self._update = read(content)
            return self._update


_latest: Final = _LatestUpdate()


def load_prices(connection: Executor) -> "PriceBook":
    """Return the prices in force, without an account's terms."""
    from detectors.prices.book import PriceBook

    update = _latest.get(connection)
    return PriceBook() if update is None else update.make_book()


# By update, terms, provider and model: reading a model's from the book takes half a millisecond.
_changes: Final = dict[tuple[str, ...], Sequence[tuple[date, str]]]()
_MOST_CHANGES: Final = 10_000


def list_price_changes(
    connection: Executor, update: str, terms: str, models: Iterable[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], date, str]]:
    """Yield the days on which list prices changed, of models as an account's terms name them.

    `update` names the prices in force: another one may have other prices.
    """
    book = None
    for model in models:
        key = (update, terms, *model)
        found = _changes.get(key)
        if found is None:
            from detectors.prices.history import list_changes

            book = book or load_prices(connection).with_stored_toml(terms)
            listing = book.find_listing(*model)
            found = () if listing is None else tuple(list_changes(listing))
            if len(_changes) >= _MOST_CHANGES:
                _changes.clear()
            _changes[key] = found
        for changed_on, words in found:
            yield model, changed_on, words


def find_fetched_at(connection: Connection) -> datetime | None:
    """Return when the prices in force were fetched; None for the installed ones."""
    return price_updates.find_fetched_at(connection, VERSION)


def find_version(connection: Connection) -> str:
    """Return the version of the prices in force, as `PriceBook.version`, without loading them.

    The book has the day on which its update was fetched, which is stored a moment later: around
    midnight, the two may differ.
    """
    fetched_at = find_fetched_at(connection)
    return VERSION if fetched_at is None else f"{VERSION}+{fetched_at.astimezone(UTC):%Y-%m-%d}"


def fetch_update(url: str) -> bytes:
    """Fetch and check the published prices; `PriceUpdateError` says what went wrong."""
    from detectors.prices.updates import fetch

    return fetch(url or None)


def save_update(connection: Connection, content: bytes) -> None:
    """Use these prices from now on, in every process."""
    price_updates.save_update(connection, VERSION, content)
