"""Fills an account's call store with imports, by the functions that publish audits."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from typing import Final

import polars as pl
from sqlalchemy import Engine, func, insert, select, text, update

from benchmarks.account.traffic import DAYS, calls_of_day, first_day
from detectors import PriceBook
from detectors.contract import InvalidRows
from detectors.frames import UsageLog, write_log
from detectors.report.account import sum_spend
from service.core.blobs import BlobStore
from service.models import Audit, CallFile
from service.models.audits.blob_keys import frame_key, raw_key
from service.models.base import new_id
from service.models.calls.account_audits import note_imports
from service.models.calls.call_files import NewImport, add_imports

# As a worker claims small audits.
_AT_ONCE: Final = 40
_WRITERS: Final = 8
_VALID: Final = InvalidRows(count=0, reasons={}, first=())


def fill_store(
    engine: Engine, blobs: BlobStore, account_id: str, *, calls: int, imports: int
) -> int:
    """Publish imports of about equal size over 30 days; return the number of their calls."""
    first, prices, published = first_day(), PriceBook(), 0
    for day in range(DAYS):
        frame = calls_of_day(day, calls // DAYS, imports // DAYS, first)
        for some in _split(frame, imports // DAYS):
            spend = sum_spend(some, prices)
            with ThreadPoolExecutor(_WRITERS) as pool:
                new = list(pool.map(lambda each: _store(blobs, account_id, each), some))
            lines = zip(new, spend, strict=True)
            _publish(engine, account_id, [replace(each, spend=own) for each, own in lines])
        published += frame.height
    with engine.begin() as connection:  # the days are over, and no more calls come
        earlier = func.now() - text("interval '1 hour'")
        connection.execute(update(CallFile).values(created_at=earlier))
    return published


def _split(frame: pl.DataFrame, imports: int) -> Iterator[list[pl.DataFrame]]:
    """Yield as many imports as a worker audits at once."""
    ends = [frame.height * number // imports for number in range(imports + 1)]
    pieces = [frame[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]
    for at in range(0, imports, _AT_ONCE):
        yield pieces[at : at + _AT_ONCE]


def _store(blobs: BlobStore, account_id: str, calls: pl.DataFrame) -> NewImport:
    audit_id, file = new_id(), BytesIO()
    write_log(UsageLog(calls, calls.height, _VALID), file)
    content, key = file.getvalue(), frame_key(audit_id, 1)
    blobs.put(key, content)
    days = calls["ts"].dt.date()
    return NewImport(
        account_id=account_id,
        audit_id=audit_id,
        import_id=f"{audit_id}-1",
        blob_key=key,
        content_hash=sha256(content).digest(),
        first_day=days[0],
        last_day=days[-1],
        calls=calls.height,
        bytes=len(content),
        spend=(),
    )


def _publish(engine: Engine, account_id: str, new: Sequence[NewImport]) -> None:
    rows = [
        {
            "id": each.audit_id,
            "account_id": account_id,
            "source": "ingest",
            "status": "done",
            "blob_key": raw_key(each.audit_id),
            "frame_key": each.blob_key,
            "records": each.calls,
            "finished_at": func.now(),
        }
        for each in new
    ]
    with engine.begin() as connection:
        for row in rows:
            connection.execute(insert(Audit).values(row))
        add_imports(connection, new)
        note_imports(connection, [account_id])


def count_files(engine: Engine, account_id: str) -> tuple[int, int]:
    """Return the number of live files and their bytes."""
    live = (CallFile.account_id == account_id, CallFile.replaced_at.is_(None))
    query = select(func.count(), func.coalesce(func.sum(CallFile.bytes), 0)).where(*live)
    with engine.connect() as connection:
        files, size = connection.execute(query).one()
    return int(files), int(size)


def list_keys(engine: Engine, account_id: str) -> Sequence[str]:
    """Return the keys of the live files."""
    live = (CallFile.account_id == account_id, CallFile.replaced_at.is_(None))
    with engine.connect() as connection:
        return connection.scalars(select(CallFile.blob_key).where(*live)).all()
