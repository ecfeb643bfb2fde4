"""Where the calls behind a finding can be computed again."""

from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import Connection, select

from service.models.audits.audits import Audit, FindingRow


class CallsSource(NamedTuple):
    """The frame of an audit's calls, and what its report says about one finding.

    `is_purged` if the records were deleted, and with them the right to list single calls.
    """

    frame_key: str
    source: str
    is_purged: bool
    calls: int
    observed_usd: Decimal


def find_calls_source(connection: Connection, audit_id: str, finding_id: str) -> CallsSource | None:
    """Return the source of a finding's calls; None if the audit has no such finding."""
    query = (
        select(
            Audit.frame_key,
            Audit.source,
            Audit.raw_purged_at,
            FindingRow.calls,
            FindingRow.observed_cost_impact_usd,
        )
        .join(FindingRow, FindingRow.audit_id == Audit.id)
        .where(Audit.id == audit_id, FindingRow.id == finding_id)
    )
    row = connection.execute(query).one_or_none()
    if row is None or row.frame_key is None:
        return None
    is_purged = row.raw_purged_at is not None
    return CallsSource(
        row.frame_key, row.source, is_purged, row.calls, row.observed_cost_impact_usd
    )
