"""Tables as CSV, written to a temporary file, so that a slow client holds no connection."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final

from detectors.wording.findings_csv import write_rows

# Excel needs it to recognize UTF-8; programs do better without it.
BYTE_ORDER_MARK: Final = "\ufeff"
_IN_MEMORY_BYTES: Final = 1024 * 1024
_ROWS_AT_ONCE: Final = 1_000


def spool_csv(header: Sequence[str], rows: Iterable[Sequence[Any]], *, mark: str = "") -> IO[bytes]:
    """Return a file with the rows below the header, at its start."""
    file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115  # the response closes it
    try:
        file.write(f"{mark}{write_rows((header,))}".encode())
        remaining = iter(rows)
        while block := list(islice(remaining, _ROWS_AT_ONCE)):
            file.write(write_rows([list(map(_cell, row)) for row in block]).encode())
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _cell(value: Any) -> str:
    """Format without exponents and in UTC; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return str(value)
