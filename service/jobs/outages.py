"""Distinguish an outage of storage, database or network from an error of the job's own.

An outage is no attempt at an audit: the next one has nothing to do with this one's data.
"""

import errno
import re
from typing import Any, Final, NamedTuple

from redis import RedisError
from rq.timeouts import BaseTimeoutException
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from detectors.errors import ScratchFullError, find_errno
from service.core.blobs import (
    BlobError,
    BlobNotFoundError,
    ScratchTooSmallError,
    is_scratch_full,
)
from service.core.logs import get_logger
from service.core.telemetry.counters import OUTAGES
from service.core.telemetry.error_reports import chain_of

STORAGE, DATABASE, NETWORK = "storage", "database", "network"

_DISK_ERRORS: Final = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENODEV, errno.ENXIO)
    + (errno.ESTALE, errno.EACCES, errno.EPERM, errno.EBUSY)
)
_NETWORK_ERRORS: Final = frozenset(
    (errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ETIMEDOUT)
    + (errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENOTCONN)
)
# PostgreSQL's classes and codes: connections, resources such as a full disk, an operator's stop,
# the system; a server that only reads, locks, and files that it may not open.
_SERVER_STATES: Final = re.compile(r"08...|53...|57P0.|58...|25006|40001|40P01|55P03|42501")
_STATEMENT_TIMEOUT: Final = "57014"
_LOST_IN_TRANSACTION: Final = "8s2b"  # SQLAlchemy's code
_SPARK_IS_AWAY: Final = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
# What may also be an audit's own error counts as one after so many outages in a row: 6 minutes.
_MOST_IN_DOUBT: Final = 10

# A disk that one job fills is no outage: the others go on.
_OWN_ERRORS: Final = (BaseTimeoutException, ScratchTooSmallError, ScratchFullError)

_log = get_logger(__name__)


class Outage(NamedTuple):
    """What failed, how, and whether that can't be the job's own error."""

    cause: str
    reason: str
    is_certain: bool = True

    def excuses(self, earlier: int) -> bool:
        """Check whether an attempt after so many outages in a row still doesn't count."""
        return self.is_certain or earlier < _MOST_IN_DOUBT

    def report(self, kind: str, **names: Any) -> None:
        """Count and log the outage, with the kind of job that it ended."""
        OUTAGES.labels(kind, self.cause).inc()
        _log.error("outage", job_kind=kind, cause=self.cause, reason=self.reason, **names)


def find_outage(error: BaseException) -> Outage | None:
    """Return the outage that an error comes from, or None for every other error."""
    chain = list(chain_of(error))
    if any(isinstance(each, _OWN_ERRORS) for each in chain):
        return None
    return next(filter(None, map(_find, chain)), None)


def _find(error: BaseException) -> Outage | None:
    name = type(error).__name__
    if isinstance(error, RedisError):
        return Outage(NETWORK, name)
    if isinstance(error, PoolTimeoutError):
        return Outage(DATABASE, name)
    if isinstance(error, PendingRollbackError):
        return Outage(DATABASE, name) if error.code == _LOST_IN_TRANSACTION else None
    if isinstance(error, DBAPIError):
        return _find_in_database(error)
    if isinstance(error, BlobNotFoundError) and error.is_empty:
        return Outage(STORAGE, "all blobs are missing, as if the disk weren't mounted")
    if isinstance(error, FileNotFoundError):
        return Outage(STORAGE, "a blob is missing", is_certain=False)
    if isinstance(error, BlobError):
        return Outage(STORAGE, error.strerror or name)
    if type(error).__module__.startswith("grpc"):
        code = getattr(getattr(error, "code", lambda: None)(), "name", "")
        return (
            Outage(NETWORK, f"Spark: {code}", is_certain=False) if code in _SPARK_IS_AWAY else None
        )
    number = find_errno(error)
    if isinstance(error, ConnectionError | TimeoutError) or number in _NETWORK_ERRORS:
        # Of Spark: of the storage, the database and Redis there are other errors.
        return Outage(NETWORK, type(error).__name__, is_certain=False)
    if number in _DISK_ERRORS:
        # The job's own temporary files may have filled the disk, but they are gone now.
        is_certain = number != errno.ENOSPC or is_scratch_full()
        return Outage(STORAGE, errno.errorcode[number], is_certain)
    return None


def _find_in_database(error: DBAPIError) -> Outage | None:
    state = getattr(error.orig, "pgcode", None) or ""
    reason = f"{type(error.orig).__name__} {state}".rstrip()
    if _SERVER_STATES.fullmatch(state):
        return Outage(DATABASE, reason)
    # A query may be too slow because of its data, or even end its server.
    if state == _STATEMENT_TIMEOUT or error.connection_invalidated:
        return Outage(DATABASE, reason, is_certain=False)
    return None if state else Outage(DATABASE, reason)
