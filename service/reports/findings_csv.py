"""The findings of a stored report document as CSV."""

from detectors.contract import Report
from detectors.wording import findings_csv


def print_findings(document: bytes) -> str:
    """Return every finding of a report document as CSV, by rank."""
    return findings_csv.print_findings(Report.from_json(document))
