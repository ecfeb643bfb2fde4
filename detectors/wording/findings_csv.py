"""The findings of a report as CSV, with cells that no spreadsheet program runs as formulas."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Final

from detectors.contract import Report
from detectors.wording.projection import IMPORT

# The start of a formula, after white space and invisible marks, which a program may skip. A plain
# number below zero is none.
_FORMULA: Final = re.compile(
    r"(?!-[0-9]+(?:\.[0-9]+)?\Z)"
    r"[\s\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]"
)
_MONTHLY: Final = "monthly_cost_impact_usd"
_COLUMNS: Final = (
    *("id", "detector", "kind", "route", "provider", "model", "calls", "severity", "confidence"),
    *(_MONTHLY, "impact_low", "impact_high", "observed_cost_impact_usd"),
    *("first_seen", "last_seen", "suggested_model", "fix", "formula"),
)


def print_findings(report: Report) -> str:
    """Return every finding of the report as CSV, ranked by impact.

    A batch's report with its own dollars has no column of monthly dollars.
    """
    is_import = report.audit.projection == IMPORT
    columns = [name for name in _COLUMNS if name != _MONTHLY or not is_import]
    rows = ([getattr(finding, name) for name in columns] for finding in report.findings)
    return write_csv(columns, (["" if it is None else str(it) for it in row] for row in rows))


def write_csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the table with its header; a cell that could be a formula starts with a quote."""
    return write_rows((header,)) + write_rows(rows)


def write_rows(rows: Iterable[Sequence[str]]) -> str:
    """Return lines of a table; a cell that could be a formula starts with a quote."""
    table = io.StringIO()
    csv.writer(table).writerows(
        [f"'{cell}" if _FORMULA.match(cell) else cell for cell in row] for row in rows
    )
    return table.getvalue()
