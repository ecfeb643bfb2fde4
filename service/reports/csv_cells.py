"""Tables for spreadsheet programs, which must take no cell for a formula."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Final

from service.models.identity.early_access import EarlyAccess

# What makes a formula at the beginning of a cell, and what hides such a beginning: white space and
# marks without a width, which a program may leave out before it looks.
_FORMULA: Final = re.compile(
    r"[\s\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]"
)


def write_csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The table with its header; every cell that could pass for a formula starts with a quote."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(header)
    writer.writerows([_inert(cell) for cell in row] for row in rows)
    return table.getvalue()


def write_early_access(rows: Iterable[EarlyAccess]) -> str:
    cells = [(row.email, row.asked_at.isoformat()) for row in rows]
    return write_csv(("email", "asked_at"), cells)


def _inert(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) else cell
