"""Turn failures of the storage into 503, so that the caller tries again."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.core.logs import get_logger
from service.errors import UnavailableError

_log = get_logger(__name__)


@contextmanager
def storage_needed() -> Iterator[None]:
    """Raise `UnavailableError` where the disk is full or the storage is unreachable."""
    try:
        yield
    except OSError as error:
        _log.error("storage_failed", error_type=type(error).__name__, errno=error.errno)
        message = "Storage is temporarily unavailable. Try again shortly."
        raise UnavailableError(message) from error
