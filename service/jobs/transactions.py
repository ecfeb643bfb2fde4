"""Transactions that wait for a database that is briefly unavailable."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError

from service.core.logs import get_logger

# A restart takes seconds, so a lease is long enough for it and for the audit.
_PATIENCE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.2

Result = TypeVar("Result")

_log = get_logger(__name__)


def transact(
    engine: Engine, step: Callable[[Connection], Result], *, is_durable: bool = True
) -> Result:
    """Run the step in a transaction; start over if the database became unavailable.

    The step must be repeatable, because a commit whose response was lost may have happened. Without
    `is_durable`, the commit doesn't wait for the disk, and a database crash may undo it.
    """
    gives_up_at = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            with engine.begin() as connection:
                if not is_durable:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                return step(connection)
        except DBAPIError as error:
            is_away = error.connection_invalidated or isinstance(error, OperationalError)
            if not is_away or time.monotonic() > gives_up_at:
                raise
            _log.warning("database_unavailable", error_type=type(error).__name__)
            time.sleep(_PAUSE_SECONDS)
