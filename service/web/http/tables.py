"""Send tables: CSV for programs and for pages, XLSX for pages.

A table is complete before its first byte is sent: a failed query is an error, not half a table,
and a slow client holds no connection. A file's name says whose its days are: UTC's or a zone's.

A large table is written by a process of its own (`server/large_tables.py`), because Python runs one
thread at a time: writing it in a thread of the web process would hold up all other requests. An
account has one at a time, of all web processes: another is refused at once, so that it can't take
the turns of others, who wait for one.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import PIPE
from tempfile import TemporaryFile
from threading import Semaphore
from typing import IO, Any, Final, Protocol

import msgspec
from flask import Response, send_file
from sqlalchemy.orm import Session

from service.core.logs import get_logger
from service.errors import InvalidRequestError, RateLimitedError, UnavailableError
from service.models.base import Lock, try_lock
from service.reports.csv_table import spool_csv
from service.web.http.current import current_config, current_session_factory, without_slot

CSV: Final = "csv"
XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# A table with more lines than this is written by another process, which takes a second to start.
LARGE_LINES: Final = 2_000
# The exit code of a process that wrote a message for the caller instead of the table.
REJECTED: Final = 3
# The same of one whose account has another table written.
BUSY: Final = 4
_TIMED_OUT: Final = -1
_WRITE_SECONDS: Final = 300
_WAIT_SECONDS: Final = 30
# Of each web process. An account has one at most, so none keeps the others' from being free.
_TURNS: Final = Semaphore(2)
_RETRY_SECONDS: Final = 10
_IN_PROGRESS: Final = "Another large export of your account is in progress. Try again when it ends."

# Accounts with a table that this process has written or that waits for its turn.
_accounts: Final = set[str]()
_log = get_logger(__name__)


class Table(Protocol):
    """A table of an account; msgspec encodes it for the process that writes it."""

    @property
    def account_id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def ending(self) -> str: ...

    @property
    def mark(self) -> str: ...

    @property
    def zone(self) -> str: ...

    @property
    def header(self) -> Sequence[str]: ...

    def has_more_lines(self, session: Session, number: int) -> bool: ...

    def rows(self, session: Session) -> Iterator[Sequence[Any]]: ...


def send_table(table: Table) -> Response:
    """Return the table as a file; raise `InvalidRequestError` if it doesn't fit into a sheet.

    Raise `RateLimitedError` if it is large and another of the account is being written.
    """
    with current_session_factory()() as session:
        is_large = table.has_more_lines(session, LARGE_LINES)
        if is_large and not try_lock(session, Lock.LARGE_EXPORTS, table.account_id):
            raise RateLimitedError(_IN_PROGRESS, _RETRY_SECONDS)
        file = None if is_large else write_table(table, session)
    file = file or _write_elsewhere(table)
    is_csv, etag = table.ending == CSV, ""
    if is_csv:
        etag = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        file.seek(0)
    whose = re.sub("[^a-z0-9]+", "-", table.zone.lower())
    response = send_file(
        file,
        mimetype="text/csv" if is_csv else XLSX,
        as_attachment=True,
        download_name=f"tallystick-{table.name}-{whose}.{table.ending}",
        conditional=False,  # the API does it for all its responses, without ranges
        etag=etag or False,
    )
    response.content_length = file.seek(0, 2)
    file.seek(0)
    return response


def write_table(table: Table, session: Session) -> IO[bytes]:
    """Return a file with the table, at its start."""
    if table.ending == CSV:
        return spool_csv(table.header, table.rows(session), mark=table.mark)
    # It takes a fifth of a second to import, which most processes never need.
    from service.reports.workbook import spool_workbook

    return spool_workbook(table.name.capitalize(), table.header, table.rows(session))


def _write_elsewhere(table: Table) -> IO[bytes]:
    """Let another process write the table, while other requests run in this one."""
    command = [sys.executable, "-P", "-m", "service.web.server.large_tables"]
    job = msgspec.json.encode((current_config(), table))
    file = TemporaryFile()  # noqa: SIM115  # the response closes it
    try:
        with without_slot(), _turn(table.account_id):
            try:
                code = _run(command, job, file)
            except subprocess.TimeoutExpired:
                code = _TIMED_OUT
        file.seek(0)
        if code == REJECTED:
            raise InvalidRequestError(file.read().decode())
        if code == BUSY:  # the requests came at once, to several processes
            raise RateLimitedError(_IN_PROGRESS, _RETRY_SECONDS)
        if code:
            _log.error("large_table_failed", table=table.name, code=code)
            raise UnavailableError
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def _turn(account_id: str) -> Iterator[None]:
    """Wait for a turn; raise `RateLimitedError` if the account has one or waits for it."""
    if account_id in _accounts:
        raise RateLimitedError(_IN_PROGRESS, _RETRY_SECONDS)
    _accounts.add(account_id)
    try:
        if not _TURNS.acquire(timeout=_WAIT_SECONDS):
            raise UnavailableError
        try:
            yield
        finally:
            _TURNS.release()
    finally:
        _accounts.discard(account_id)


def _run(command: Sequence[str], job: bytes, output: IO[bytes]) -> int:
    """Run a command of ours; return its exit code."""
    with subprocess.Popen(command, stdin=PIPE, stdout=output) as process:  # noqa: S603
        try:
            process.communicate(job, timeout=_WRITE_SECONDS)
        except BaseException:
            process.kill()
            raise
    return process.returncode
