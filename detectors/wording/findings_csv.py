"""The findings of a report as CSV, with cells that no spreadsheet program runs as formulas."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Final

from detectors.contract import Finding, Report

# The start of a formula, after white space and invisible marks, which a program may skip.
_FORMULA: Final = re.compile(
    r"[\s\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]"
)
_COLUMNS: Final = (
    "id",
    "detector",
    "kind",
    "route",
    "provider",
    "model",
    "calls",
    "severity",
    "confidence",
    "monthly_cost_impact_usd",
    "impact_low",
    "impact_high",
    "observed_cost_impact_usd",
    "first_seen",
    "last_seen",
    "suggested_model",
    "fix",
    "formula",
)


def print_findings(report: Report) -> str:
    """Return every finding of the report as CSV, ranked by impact."""
    return write_csv(_COLUMNS, map(_cells, report.findings))


def write_csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the table with its header; a cell that could be a formula starts with a quote."""
    return write_rows((header,)) + write_rows(rows)


def write_rows(rows: Iterable[Sequence[str]]) -> str:
    """Return lines of a table; a cell that could be a formula starts with a quote."""
    table = io.StringIO()
    csv.writer(table).writerows([_inert(cell) for cell in row] for row in rows)
    return table.getvalue()


def _cells(finding: Finding) -> list[str]:
    values = (getattr(finding, name) for name in _COLUMNS)
    return ["" if value is None else str(value) for value in values]


def _inert(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) else cell
