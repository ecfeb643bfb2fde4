"""The findings of a report document as a table for spreadsheet programs."""

from typing import Final

from detectors.contract import Finding, Report
from service.reports.csv_cells import write_csv

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
    "observed_cost_impact_usd",
    "suggested_model",
    "fix",
    "formula",
)


def print_findings(document: bytes) -> str:
    """All findings by rank; every cell that could pass for a formula is made a text."""
    return write_csv(_COLUMNS, map(_cells, Report.from_json(document).findings))


def _cells(finding: Finding) -> list[str]:
    values = (getattr(finding, name) for name in _COLUMNS)
    return ["" if value is None else str(value) for value in values]
