"""Which blobs the database names, all together: what a backup must have.

PDFs and the calls of findings are not among them: they are made again when somebody asks for them.
"""

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, func, select

from service.models.audits.audits import Audit
from service.models.calls.call_files import CallFile

_PAGE: Final = 10_000


def list_named_blobs(connection: Connection) -> Iterator[str]:
    """Yield the keys of raw records that aren't purged, frames and live files of calls.

    A frame comes twice if it is a file of calls.
    """
    raws = select(Audit.blob_key).where(Audit.raw_purged_at.is_(None), Audit.blob_key != "")
    frames = select(Audit.frame_key).where(Audit.frame_key.is_not(None))
    files = select(CallFile.blob_key).where(CallFile.replaced_at.is_(None))
    queries: tuple[Any, ...] = (raws, frames, files)
    for query in queries:
        yield from connection.scalars(query.execution_options(yield_per=_PAGE))


def count_audits(connection: Connection) -> int:
    return connection.scalar(select(func.count()).select_from(Audit)) or 0
