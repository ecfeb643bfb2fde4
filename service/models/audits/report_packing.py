"""Pack report documents some time after they were written.

A process of the previous release, which may still run for a while after an upgrade, can't read
packed documents. So reports are written as they are, and housekeeping packs them later.
"""

from datetime import timedelta
from typing import Final

from sqlalchemy import Connection, LargeBinary, func, select, type_coerce, update

from service.core.packing import pack
from service.models.audits.audits import ReportRow

# Documents per transaction; a few are megabytes.
BATCH: Final = 50
PACKED_AFTER: Final = timedelta(hours=1)


def pack_reports(connection: Connection, after: timedelta = PACKED_AFTER) -> int:
    """Pack some of the older documents; return their number.

    A report that another transaction is replacing is left to a later round.
    """
    stored = type_coerce(ReportRow.document, LargeBinary)
    old = (~ReportRow.is_packed, ReportRow.created_at <= func.now() - after)
    query = select(ReportRow.audit_id, stored.label("document")).where(*old)
    oldest = query.order_by(ReportRow.created_at).limit(BATCH)
    rows = connection.execute(oldest.with_for_update(skip_locked=True)).all()
    for audit_id, document in rows:
        packed = update(ReportRow).where(ReportRow.audit_id == audit_id)
        new = type_coerce(pack(bytes(document)), LargeBinary)
        connection.execute(packed.values(document=new, is_packed=True))
    return len(rows)
