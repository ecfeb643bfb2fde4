"""Fetch the published prices daily, for the leading sweeper."""

import time
from threading import Thread
from typing import Final

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from detectors.errors import PriceUpdateError
from service.config import Config
from service.core.logs import get_logger
from service.core.telemetry.counters import PRICE_UPDATES
from service.models.base import utc_now
from service.operations.price_book import fetch_update, find_fetched_at, save_update

_DAY_SECONDS: Final = 86_400.0
_RETRY_SECONDS: Final = 3_600.0

_log = get_logger(__name__)


class PriceUpdates:
    """Fetch in a separate thread, so that a slow network delays no audit."""

    def __init__(self, config: Config, engine: Engine) -> None:
        self._config = config
        self._engine = engine
        self._due_at = time.monotonic()
        self._thread = Thread()

    def take_turn(self, connection: Connection) -> None:
        """Begin to fetch if the stored prices are a day old, or an hour after a failure."""
        is_due = self._config.prices_update == "on" and time.monotonic() >= self._due_at
        if not is_due or self._thread.is_alive():
            return
        with connection.begin():
            fetched_at = find_fetched_at(connection)
        if fetched_at is not None:
            left = _DAY_SECONDS - (utc_now() - fetched_at).total_seconds()
            if left > 0:
                self._due_at = time.monotonic() + left
                return
        self._due_at = time.monotonic() + _RETRY_SECONDS
        self._thread = Thread(target=self._update, name="prices", daemon=True)
        self._thread.start()

    def _update(self) -> None:
        try:
            content = fetch_update(self._config.prices_url)
            with self._engine.begin() as connection:
                save_update(connection, content)
        except (PriceUpdateError, SQLAlchemyError) as error:
            # The text may contain the URL, and with it a password.
            cause = type(error.__cause__ or error).__name__
            PRICE_UPDATES.labels("failed").inc()
            _log.warning("prices_not_updated", error_type=cause)
        else:
            PRICE_UPDATES.labels("fetched").inc()
            _log.info("prices_updated", size=len(content))
