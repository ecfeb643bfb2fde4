"""Requests that need the storage: where it is away or full, another try may find it better."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.core.logs import get_logger
from service.errors import UnavailableError

_log = get_logger(__name__)


@contextmanager
def storage_needed() -> Iterator[None]:
    """503 where the disk is full or the storage away."""
    try:
        yield
    except OSError as error:
        _log.error("storage_failed", error_type=type(error).__name__, errno=error.errno)
        message = "The storage is full or away for the moment; try again shortly."
        raise UnavailableError(message) from error
