"""Sends the ledger's calls to a service, each once.

A batch is written to the ledger with its `Idempotency-Key`, in the transaction that marks its
calls. It stays there until the service has answered, so a batch that is sent again after a kill, a
lost connection or an error has the same key and the same bytes, and the service counts it once. A
message that still grows is sent when it has not changed for two minutes.
"""

import gzip
import json
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from detectors.agents.ledger import Ledger
from detectors.contract import UsageRecordV2
from detectors.formats.adapters.calls import Call, record_of

SETTLED_SECONDS: Final = 120
MOST_CALLS: Final = 1_000
_TIMEOUT_SECONDS: Final = 20.0
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
# Of these answers, another try has the same end until somebody changes something.
_NO_ROUTE: Final = 404
_REFUSED: Final = (400, 401, 402, 403, 404, 413, 422)
_FIELDS: Final = UsageRecordV2.__struct_fields__
MOST_LIMITS: Final = 20  # of a request
_SENT_LIMITS: Final = """
CREATE TABLE IF NOT EXISTS sent_limits (agent TEXT, minutes INTEGER, resets_at INTEGER,
    sent REAL, PRIMARY KEY (agent, minutes, resets_at)) WITHOUT ROWID
"""
_NEW_LIMITS: Final = """
SELECT agent, minutes, resets_at, peak FROM limits LEFT JOIN sent_limits
    USING (agent, minutes, resets_at)
WHERE peak > coalesce(sent, -1) ORDER BY resets_at DESC LIMIT ?
"""
_UNSENT: Final = """
SELECT number, body FROM calls WHERE sent IS NULL AND abs(? - changed) >= ?
ORDER BY changed LIMIT ?
"""
_decode: Final = msgspec.msgpack.Decoder(Call).decode
_encode: Final = msgspec.json.Encoder().encode


class Destination(NamedTuple):
    """Where to send; the key is in no representation."""

    url: str
    key: str

    def __repr__(self) -> str:
        return f"Destination(url={self.url!r})"


def parse_dsn(dsn: str) -> Destination | None:
    """Return the destination of `https://<INGEST_KEY>@<host>`; plain HTTP only to this machine."""
    try:
        parts = urlsplit(dsn.strip())
        host, port, key = parts.hostname, parts.port, parts.username
    except ValueError:
        return None
    is_allowed = parts.scheme == "https" or (parts.scheme == "http" and host in _LOCAL)
    if not is_allowed or not host or not key or parts.query or parts.fragment:
        return None
    address = f"[{host}]" if ":" in host else host
    address += f":{port}" if port else ""
    return Destination(f"{parts.scheme}://{address}{parts.path.rstrip('/')}/api/v2/ingest", key)


class Refused(Exception):
    """The service doesn't accept what is sent; `code` is its error's."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"the service answered {status} {code}".rstrip())
        self.status = status


class Delayed(Exception):
    """The service can't be reached, or asks to wait."""

    def __init__(self, reason: str, seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.seconds = seconds


def send_new(
    ledger: Ledger, destination: Destination, label: str = "", settled: float = SETTLED_SECONDS
) -> int:
    """Send the batches that wait, then those of new calls; return how many calls arrived."""
    database, sent, settled_us = ledger.database, 0, int(settled * 1_000_000)
    while True:
        waiting = database.execute("SELECT key, calls, body FROM batches ORDER BY key").fetchone()
        if waiting is None:  # write a batch of calls that no batch has
            now = time.time_ns() // 1_000
            with ledger.changing():
                rows = database.execute(_UNSENT, (now, settled_us, MOST_CALLS)).fetchall()
                if not rows:
                    return sent
                records = list[dict[str, Any]]()
                for _, call in rows:
                    record = record_of(_decode(call))
                    values = [(name, getattr(record, name)) for name in _FIELDS]
                    records.append({name: each for name, each in values if each not in (None, "")})
                    if label:
                        records[-1]["environment"] = label
                body = gzip.compress(_encode({"records": records}), 6)
                batch = (uuid.uuid4().hex, len(rows), body)
                database.execute("INSERT INTO batches VALUES (?, ?, ?)", batch)
                database.executemany(
                    "UPDATE calls SET sent = ? WHERE number = ?", [(now, row[0]) for row in rows]
                )
            continue
        key, calls, body = waiting
        headers = {"Content-Encoding": "gzip", "Idempotency-Key": key}
        _post(Request(destination.url, body, headers, method="POST"), destination.key)  # noqa: S310
        with ledger.changing():
            database.execute("DELETE FROM batches WHERE key = ?", (key,))
        sent += calls


def send_limits(ledger: Ledger, destination: Destination, label: str = "") -> int:
    """Send the windows of plans of which more is used than the service knows; return how many.

    The service keeps the highest share of each, so sending one again changes nothing.
    """
    database = ledger.database
    database.execute(_SENT_LIMITS)
    sent = 0
    url = f"{destination.url.removesuffix('/v2/ingest')}/v1/plan-limits"
    while rows := database.execute(_NEW_LIMITS, (MOST_LIMITS,)).fetchall():
        limits = [
            {
                "provider": agent, "environment": label, "window_minutes": minutes,
                "resets_at": datetime.fromtimestamp(resets, UTC).isoformat(),
                "used_percent": used,
            }
            for agent, minutes, resets, used in rows
        ]  # fmt: skip
        try:
            _post(Request(url, _encode({"limits": limits}), method="POST"), destination.key)  # noqa: S310
        except Refused as refusal:
            if refusal.status != _NO_ROUTE:  # which a service of an earlier release answers
                raise
        with ledger.changing():
            query = "INSERT OR REPLACE INTO sent_limits VALUES (?, ?, ?, ?)"
            database.executemany(query, rows)
        sent += len(rows)
    return sent


def _post(request: Request, key: str) -> None:
    request.add_header("Authorization", f"Bearer {key}")
    request.add_header("Content-Type", "application/json")
    request.add_header("User-Agent", "tallystick-watch")
    try:
        with build_opener(_Stay).open(request, timeout=_TIMEOUT_SECONDS) as answer:
            answer.read(1 << 16)
    except HTTPError as error:
        code: object = None
        with suppress(ValueError, KeyError, TypeError, OSError):
            code = json.loads(error.read(1 << 16))["error"]["code"]
        code = code if isinstance(code, str) and code.isidentifier() else ""
        if error.code in _REFUSED:
            raise Refused(error.code, code) from None
        asked = error.headers.get("Retry-After", "")
        seconds = float(asked) if asked.isdecimal() else 0.0
        raise Delayed(f"the service answered {error.code} {code}".rstrip(), seconds) from None
    except (HTTPException, OSError, ValueError) as error:
        raise Delayed(f"the service can't be reached: {type(error).__name__}") from None


class _Stay(HTTPRedirectHandler):
    """Follows no redirect, which would take the key to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None
