"""From a stored blob to a committed audit: the blob goes again where no row comes to name it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from service.core.logs import get_logger
from service.models.audits.audits import Audit
from service.web.http.current import current_blobs, current_session_factory

_log = get_logger(__name__)


@contextmanager
def delete_blob_on_error(blob_key: str) -> Iterator[None]:
    """No row will ever name the blob when the block fails, so it goes."""
    try:
        yield
    except BaseException:
        _delete_blob(blob_key)
        raise


@contextmanager
def delete_blob_if_absent(audit: Audit) -> Iterator[None]:
    """A commit whose answer was lost may have happened: the blob goes only if it surely did not."""
    try:
        yield
    except DBAPIError:
        if _is_surely_absent(audit.id):
            _delete_blob(audit.blob_key)
        raise


def _is_surely_absent(audit_id: str) -> bool:
    try:
        with current_session_factory()() as session:
            return session.get(Audit, audit_id) is None
    except SQLAlchemyError:
        return False


def _delete_blob(blob_key: str) -> None:
    try:
        current_blobs().delete(blob_key)
    except OSError as error:
        # The request fails for its first reason; an orphan blob is swept later.
        _log.warning("blob_not_deleted", blob_key=blob_key, exc_info=error)
