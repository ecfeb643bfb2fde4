"""Audits whose calls are not in the call store: those of releases without one."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, exists, select
from sqlalchemy.dialects.postgresql import insert

from service.models.audits.audits import ACCOUNT, DONE, Audit
from service.models.calls.call_files import CallImport, NewImport, add_imports
from service.models.imports.copies import drop_copies

# Of a frame that can't be read: nothing was added, and nothing will be.
_UNREADABLE: Final = b""


def _is_missing() -> ColumnElement[bool]:
    """Match audits with a frame that brought nothing to the calls of their account yet.

    A file that was uploaded again never does.
    """
    is_own = CallImport.account_id == Audit.account_id
    return and_(
        Audit.status == DONE,
        Audit.source != ACCOUNT,
        Audit.frame_key.is_not(None),
        ~exists().where(CallImport.audit_id == Audit.id),
        ~exists().where(is_own, CallImport.file_hash == Audit.content_hash),
    )


def list_incomplete_accounts(connection: Connection, limit: int) -> Sequence[str]:
    """Return accounts with such audits."""
    query = select(Audit.account_id).where(_is_missing()).distinct()
    return connection.scalars(query.limit(limit)).all()


def list_missing(connection: Connection, account_id: str, limit: int) -> Sequence[Any]:
    """Return some of the account's audits that are missing, newest first."""
    columns = (Audit.id, Audit.frame_key, Audit.content_hash)
    query = select(*columns).where(Audit.account_id == account_id, _is_missing())
    return connection.execute(query.order_by(Audit.created_at.desc()).limit(limit)).all()


def add_missing_import(connection: Connection, new: NewImport) -> bool:
    """Add the calls of an audit, unless it was audited again or added in the meantime."""
    if not _lock(connection, new.audit_id, new.blob_key):
        return False
    add_imports(connection, drop_copies(connection, [new]))
    return True


def skip_missing_import(connection: Connection, audit_id: str, frame_key: str) -> None:
    """Note that the frame of an audit can't be read, so that nobody tries again."""
    account_id = _lock(connection, audit_id, frame_key)
    if account_id:
        row = {"audit_id": audit_id, "account_id": account_id, "import_id": "", "calls": 0}
        statement = insert(CallImport).values(row | {"content_hash": _UNREADABLE})
        connection.execute(statement.on_conflict_do_nothing())


def _lock(connection: Connection, audit_id: str, frame_key: str) -> str | None:
    """Lock the audit if it still is missing with this frame; return its account."""
    # The lock waits for a publication, whose rows a condition in the same query would not see.
    connection.execute(select(Audit.id).where(Audit.id == audit_id).with_for_update())
    named = (Audit.id == audit_id, Audit.frame_key == frame_key)
    return connection.scalar(select(Audit.account_id).where(*named, _is_missing()))
