"""Purge old files of calls, and delete rows of files that were replaced. Callers commit."""

from datetime import timedelta
from typing import Final

from sqlalchemy import Connection, and_, delete, func, select, update

from service.models.base import utc_now
from service.models.calls.call_files import LATE, CallFile

# Calls that were long past when they were imported stay for a while, too.
_PURGED_AFTER: Final = timedelta(days=30)
# Readers may still have a replaced file; deleting an account deletes its blob too.
_REPLACED_KEPT: Final = timedelta(days=1)


def delete_replaced(connection: Connection, limit: int) -> int:
    """Delete the rows of files that were replaced a day ago; return their number."""
    is_old = and_(CallFile.replaced_at < func.now() - _REPLACED_KEPT, CallFile.purged_at.is_(None))
    some = select(CallFile.id).where(is_old).limit(limit)
    return connection.execute(delete(CallFile).where(CallFile.id.in_(some))).rowcount


def purge_old(connection: Connection, days: int, limit: int) -> int:
    """Purge merged files whose last day was so many days ago; return their number.

    Their rows stay, because their spend belongs to them. Their blobs become orphans.
    """
    last_day = utc_now().date() - timedelta(days=days)
    is_old = and_(
        CallFile.replaced_at.is_(None),
        CallFile.level >= LATE,
        CallFile.last_day < last_day,
        CallFile.created_at < func.now() - _PURGED_AFTER,
    )
    some = select(CallFile.id).where(is_old).limit(limit)
    purged = update(CallFile).where(CallFile.id.in_(some), is_old)
    return connection.execute(purged.values(replaced_at=func.now(), purged_at=func.now())).rowcount


def delete_old_spend(connection: Connection, days: int, limit: int) -> int:
    """Delete the spend of purged files whose last day was so many days ago; return their number."""
    last_day = utc_now().date() - timedelta(days=days)
    is_old = and_(CallFile.purged_at.is_not(None), CallFile.last_day < last_day)
    some = select(CallFile.id).where(is_old).limit(limit)
    return connection.execute(delete(CallFile).where(CallFile.id.in_(some))).rowcount
