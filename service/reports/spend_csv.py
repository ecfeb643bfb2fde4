"""Spend as CSV, written to a temporary file, so that a slow client holds no connection."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from typing import IO, Final

from detectors.wording.findings_csv import write_rows
from service.models.calls.spend import Line, Sums

# Excel needs it to recognize UTF-8; programs do better without it.
BYTE_ORDER_MARK: Final = "\ufeff"
_IN_MEMORY_BYTES: Final = 1024 * 1024
_ROWS_AT_ONCE: Final = 1_000


def spool_spend(
    keys: Sequence[str], lines: Iterable[Line], *, mark: str = ""
) -> tuple[IO[bytes], str]:
    """Return a file with a row for each line below a header, at its start, and its SHA-256."""
    # The response closes it.
    file, digest = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES), sha256()  # noqa: SIM115
    try:
        for text in chain((mark,), _blocks(keys, lines)):
            file.write(text.encode())
            digest.update(text.encode())
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file, digest.hexdigest()


def _blocks(keys: Sequence[str], lines: Iterable[Line]) -> Iterator[str]:
    yield write_rows(((*keys, *Sums._fields),))
    remaining = iter(lines)
    while block := list(islice(remaining, _ROWS_AT_ONCE)):
        yield write_rows(map(_cells, block))


def _cells(line: Line) -> list[str]:
    *counts, cost, listed = line.sums
    return [*map(str, line.key), *map(str, counts), f"{cost:f}", f"{listed:f}"]
