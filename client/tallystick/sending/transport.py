"""Compress and post one batch, and interpret the response."""

from __future__ import annotations

import os
import time
import zlib
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Callable, NamedTuple

from tallystick.sending.connection import NETWORK_ERRORS, Reply, make_deadline, make_trust, post
from tallystick.sending.dsn import VERSIONS, Destination
from tallystick.sending.records import Noted, reason_of, write_record
from tallystick.sending.schema import first_version

REFUSED_PAUSE_SECONDS = 600.0  # a key or a subscription is put right by people
LIMITED_PAUSE_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 3_600.0
RETRY_SECONDS = 0.5
_NO_SUCH_VERSION = 404
# The batch itself was refused.
_FINAL_STATUSES = frozenset((400, 409, 413, 415, 422))
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_RECORDS_AT_ONCE = 200


class Answer(NamedTuple):
    """How many records were accepted, how long to pause, and why others were dropped.

    The same batch may be accepted later if its failure `is_temporary`.
    """

    taken: int
    pause_seconds: float
    reason: str
    is_temporary: bool = False


class Sender:
    """Posts batches, each over a connection of its own; with `retry`, a second time if it fails."""

    def __init__(
        self,
        destination: Destination,
        write: Callable[[list[Noted]], list[str]],
        *,
        retry: bool = False,
    ) -> None:
        self._destination = destination
        self._write = write
        self._version = VERSIONS[-1]
        self._trust = make_trust() if destination.url.startswith("https") else None
        self._retry = retry
        self._reason = reason_of(write)

    def send(self, records: list[Noted]) -> Answer:
        """Post the records and return the outcome; never raises."""
        try:
            lines = self._write(records)
        except Exception as error:
            return Answer(0, 0.0, type(error).__name__)
        return self.send_lines(lines)

    def send_lines(self, lines: list[str]) -> Answer:
        """Post records that are written already and return the outcome; never raises."""
        if not lines:
            return Answer(0, 0.0, self._reason)
        try:
            reply = self._post(lines if self._version > 1 else [*map(first_version, lines)])
        except Exception as error:  # any failure of a network is the same to us
            return Answer(0, 0.0, type(error).__name__, is_temporary=True)
        if reply.status == _NO_SUCH_VERSION and self._version > VERSIONS[0]:
            self._version -= 1  # an older service
            return self.send_lines(lines)
        if 200 <= reply.status < 300:
            return Answer(len(lines), 0.0, self._reason)
        pause = 0.0
        if reply.status in (401, 402):
            pause = REFUSED_PAUSE_SECONDS
        elif reply.retry_after is not None or reply.status == 429:
            pause = _seconds(reply.retry_after)
        return Answer(0, pause, f"status {reply.status}", reply.status not in _FINAL_STATUSES)

    def _post(self, lines: list[str]) -> Reply:
        """Post once, or a second time with the same key, both before the same deadline.

        A service that accepted the batch but could not say so recognizes its key.
        """
        body, digest = _pack(lines)
        headers = {**self._destination.headers(), "Idempotency-Key": digest}
        url, deadline = self._destination.ingest_url(self._version), make_deadline()
        if self._retry:
            pause = RETRY_SECONDS * (1 + os.getpid() % 101 / 100)  # not all processes together
            try:
                reply = post(url, body, headers, self._trust, deadline)
            except NETWORK_ERRORS:
                pass
            else:
                if reply.retry_after is not None:
                    pause = _seconds(reply.retry_after)
                may_pass = reply.status == 429 or reply.status >= 500
                if not may_pass or time.monotonic() + pause >= deadline:
                    return reply
            time.sleep(pause)
        return post(url, body, headers, self._trust, deadline)


def write_lines(records: list[Noted]) -> list[str]:
    """Return the JSON of each record that the service would take.

    Other threads get their turn between pieces.
    """
    lines: list[str] = []
    for start in range(0, len(records), _RECORDS_AT_ONCE):
        some = records[start : start + _RECORDS_AT_ONCE]
        written = map(write_record, some)
        lines += [line for line in written if line is not None]
        time.sleep(0)
    return lines


def _pack(lines: list[str]) -> tuple[bytes, str]:
    """The body and its hash, in pieces, too."""
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP_WINDOW)
    digest = sha256()
    packed: list[bytes] = []
    before = '{"records":['
    for start in range(0, len(lines), _RECORDS_AT_ONCE):
        piece = (before + ",".join(lines[start : start + _RECORDS_AT_ONCE])).encode("ascii")
        digest.update(piece)
        packed.append(packer.compress(piece))
        before = ","
        time.sleep(0)
    digest.update(b"]}")
    packed += [packer.compress(b"]}"), packer.flush()]
    return b"".join(packed), digest.hexdigest()


def _seconds(retry_after: str | None) -> float:
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_PAUSE_SECONDS)
    try:
        left = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, IndexError, OverflowError):
        return LIMITED_PAUSE_SECONDS  # nothing that could be understood
    return max(0.0, min(left, LONGEST_PAUSE_SECONDS))
