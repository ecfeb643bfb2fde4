"""Close the open imports of accounts that send spans: cut their calls into audits.

What is acknowledged is in PostgreSQL. A transaction replaces it by audits, whose blobs exist before
it commits; a crash leaves blobs that no row names, which are removed as orphans.
"""

import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, insert

from service.core.blobs import BlobStore
from service.core.logs import get_logger
from service.jobs.outages import find_outage
from service.models.audits.audits import INGEST, Audit
from service.models.audits.blob_keys import raw_key
from service.models.base import new_id
from service.models.imports.span_batches import (
    HELD_FOR,
    carry_keys,
    delete_carried,
    hold_calls,
    is_import_requested,
    list_accounts_due,
    take_batches,
)
from service.models.imports.span_keys import KEY, LINK, find_counted, leave_out, read_keys

# A turn takes a second at most, so that the sweeper gets back to audits quickly.
_ACCOUNTS_AT_ONCE: Final = 20
MOST_CARRIED: Final = 20_000
_FAILED_SECONDS: Final = 60.0
_LEVEL: Final = 1
# The pause of all imports after an outage, which doubles while it lasts.
_FIRST_PAUSE_SECONDS: Final = 2.0
_NEWLINE: Final = b"\n"

_log = get_logger(__name__)

# The name of an ingest key, and an environment.
Client = tuple[str | None, str | None]


class SpanImports:
    """The imports that a sweeper cuts. An account whose import failed is tried again later."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._try_again_at: dict[str, float] = {}
        self._outages, self._resume_at = 0, 0.0

    def close(self, connection: Connection) -> list[str]:
        """Cut the imports that are due; return the IDs of the audits to enqueue."""
        now = time.monotonic()
        if now < self._resume_at:
            return []
        failed = {name: at for name, at in self._try_again_at.items() if at > now}
        self._try_again_at = failed
        with connection.begin():
            delete_carried(connection)
            account_ids = list_accounts_due(connection, _ACCOUNTS_AT_ONCE, failed.keys())
        audit_ids = list[str]()
        for account_id in account_ids:
            try:
                with connection.begin():
                    closed = close_import(connection, self._blobs, account_id)
                audit_ids += closed
                self._outages = 0
            except Exception as error:
                if connection.invalidated:
                    raise
                outage = find_outage(error)
                if outage is not None and outage.is_certain:
                    outage.report("span_import")
                    pause = min(_FIRST_PAUSE_SECONDS * 2.0**self._outages, _FAILED_SECONDS)
                    self._outages, self._resume_at = self._outages + 1, time.monotonic() + pause
                    break
                # Of any kind: what an account has sent must not stop the imports of the others.
                self._try_again_at[account_id] = time.monotonic() + _FAILED_SECONDS
                failure = type(error).__name__
                _log.warning("span_import_failed", account_id=account_id, error_type=failure)
        return audit_ids


def close_import(connection: Connection, blobs: BlobStore, account_id: str) -> list[str]:
    """Replace an account's oldest spans by an audit for each client; return their IDs."""
    is_requested = is_import_requested(connection, account_id)
    batches = take_batches(connection, account_id)
    packed = [row.keys for row in batches if not row.calls]
    carried = sum(map(len, packed)) // KEY.size
    sent = [row for row in batches if row.calls]
    keys = read_keys(b"".join([*packed, *(row.keys for row in sent)]))
    links = b"".join(row.links for row in batches)
    counted = find_counted(keys, links, carried)
    # What may be around calls that have not ended, by the clock of its program.
    now, held = time.time_ns(), set[int]()
    if not is_requested:
        since = now - int(HELD_FOR.total_seconds() * 1e9)
        around = (at for at in counted if keys[at].may_be_around)
        held = {at for at in around if since < keys[at].end <= now}
    counted -= held
    # The newest keys are kept, so that a span that is sent again later counts once.
    recent = _recent_keys(batches, counted, held, carried)[-MOST_CARRIED * KEY.size :]
    if recent or links:
        carry_keys(connection, account_id, recent, links[-MOST_CARRIED * LINK.size :])
    lines: dict[Client, list[bytes]] = defaultdict(list)
    at = carried
    for row in sent:
        every = zlib.decompress(row.lines).splitlines()
        if places := [n for n in range(row.calls) if at + n in held]:
            kept = _NEWLINE.join([*(every[n] for n in places), b""])
            kept_keys = _join_keys(row.keys, places)
            hold_calls(connection, row, zlib.compress(kept, _LEVEL), kept_keys)
        if own := [line for number, line in enumerate(every, at) if number in counted]:
            lines[row.client, row.environment] += own
        at += len(every)
    audits = list[dict[str, Any]]()
    for (name, environment), own in lines.items():
        audit_id, content = new_id(), _NEWLINE.join([*own, b""])
        blobs.put(raw_key(audit_id), content)
        audit = {"id": audit_id, "account_id": account_id, "source": INGEST}
        sender = {"client": name, "environment": environment}
        size = {"records": len(own), "raw_bytes": len(content)}
        audits.append({**audit, "blob_key": raw_key(audit_id), **sender, **size})
    if audits:
        connection.execute(insert(Audit), audits)
    calls = sum(map(len, lines.values()))
    _log.info("spans_imported", batches=len(sent), spans=len(keys) - carried, calls=calls)
    return [audit["id"] for audit in audits]


def _join_keys(packed: bytes, places: Iterable[int]) -> bytes:
    return b"".join(packed[n * KEY.size : (n + 1) * KEY.size] for n in places)


def _recent_keys(batches: Sequence[Any], counted: set[int], held: set[int], carried: int) -> bytes:
    """Return the keys to keep, of which those that don't count are marked."""
    packed = b"".join(row.keys for row in batches if not row.calls)
    at, recent = carried, [packed]
    for row in batches:
        if row.calls:
            if row.is_recent:
                keys = leave_out(row.keys, (n for n in range(row.calls) if at + n not in counted))
                if held:
                    keys = _join_keys(keys, (n for n in range(row.calls) if at + n not in held))
                recent.append(keys)
            at += row.calls
    return b"".join(recent)
