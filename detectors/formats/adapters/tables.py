"""Rows of CSV exports as objects: dotted names are nested, and cells of digits are numbers."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any, Final

from detectors.formats.adapters import find_adapters, find_sums
from detectors.formats.adapters.reading import NumberedItem
from detectors.formats.adapters.rows import Row
from detectors.formats.csv_logs.rows import CsvText

# Not with a leading zero, which only names have.
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,12}")


def is_export_header(names: Sequence[str]) -> bool:
    row = Row(row_of(names, ()))
    return any(find_adapters(row)) or find_sums(row) is not None


def row_of(names: Sequence[str], cells: Sequence[str]) -> dict[str, Any]:
    """Return the row of these cells; cells beyond the header have no name and stay text."""
    row: dict[str, Any] = {}
    for name, cell in zip_longest(names, cells[: len(names)], fillvalue=""):
        *path, last = name.split(".")
        inner = row
        for part in path:
            below = inner.setdefault(part, {})
            inner = below if isinstance(below, dict) else {}
        inner[last] = value_of(cell)
    if len(cells) > len(names):
        row["cells"] = " ".join(cells[len(names) :])
    return row


def value_of(cell: str) -> Any:
    if _INTEGER.fullmatch(cell):
        return int(cell)
    if _FLOAT.fullmatch(cell):
        number = float(cell)
        return int(number) if number.is_integer() else number
    return cell or None


def read_table(pieces: Iterator[bytes], delimiter: str) -> Iterator[list[NumberedItem]]:
    text = CsvText(pieces, delimiter)
    names = [name.strip() for name in text.first()]
    for batch in chain(text.rest(), chain.from_iterable(map(text.read, text.pieces()))):
        yield [NumberedItem(line, row_of(names, cells)) for line, cells in zip(*batch, strict=True)]
