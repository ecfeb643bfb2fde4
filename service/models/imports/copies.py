"""Files that an account has uploaded more than once. Their calls count once.

Calls with a request ID count once whichever imports bring them. Calls without one count as they
come, so a file whose records are among the account's calls already must not bring them again.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, select, tuple_
from sqlalchemy.orm import Session

from service.models.audits.audits import FAILED, Audit
from service.models.base import Lock, take_lock
from service.models.calls.call_files import CallImport, NewImport


class EarlierUpload(NamedTuple):
    """The first audit of the same records."""

    id: str
    created_at: datetime


def drop_copies(connection: Connection, imports: Sequence[NewImport]) -> Sequence[NewImport]:
    """Return the imports without files that are among their account's calls already.

    Of copies that are published at the same time, one waits for the other. If the audit of one
    fails, it never joins, so the other does.
    """
    accounts = sorted({each.account_id for each in imports if each.file_hash is not None})
    if not accounts:
        return imports
    for account_id in accounts:
        take_lock(connection, Lock.UPLOAD_COPIES, account_id)
    hashes = [each.file_hash for each in imports if each.file_hash is not None]
    query = select(CallImport.account_id, CallImport.file_hash, CallImport.audit_id).where(
        CallImport.account_id.in_(accounts), CallImport.file_hash.in_(hashes)
    )
    first: dict[tuple[str, bytes | None], str] = {
        (row[0], row[1]): row[2] for row in connection.execute(query)
    }
    return [
        each
        for each in imports
        if each.file_hash is None
        or first.setdefault((each.account_id, each.file_hash), each.audit_id) == each.audit_id
    ]


def find_earlier_upload(session: Session, audit: Audit) -> EarlierUpload | None:
    """Return the account's first upload of the same records, if this is not it."""
    if audit.content_hash is None:
        return None
    position = tuple_(Audit.created_at, Audit.id)
    query = select(Audit.id, Audit.created_at).where(
        Audit.account_id == audit.account_id,
        Audit.content_hash == audit.content_hash,
        Audit.status != FAILED,
        position < (audit.created_at, audit.id),
    )
    row = session.execute(query.order_by(Audit.created_at, Audit.id).limit(1)).one_or_none()
    return None if row is None else EarlierUpload(*row)
