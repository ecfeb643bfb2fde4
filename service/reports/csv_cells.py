"""Tables for spreadsheet programs."""

from collections.abc import Iterable

from detectors.wording.findings_csv import write_csv
from service.models.identity.early_access import EarlyAccess


def write_early_access(rows: Iterable[EarlyAccess]) -> str:
    """Return the early-access requests as CSV."""
    cells = [(row.email, row.asked_at.isoformat()) for row in rows]
    return write_csv(("email", "asked_at"), cells)
