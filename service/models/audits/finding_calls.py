"""Where the calls behind a finding can be computed again."""

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import Connection, select

from detectors.contract import Finding
from service.models.audits.audits import Audit, FindingRow
from service.models.audits.blob_keys import frame_key


class CallsSource(NamedTuple):
    """The frame of an audit's calls, and what its report says about one finding.

    `is_purged` if the records were deleted, and with them the right to list single calls. An audit
    of an account has a window instead of a frame: its calls are those of the account.
    """

    account_id: str
    frame_key: str
    source: str
    is_purged: bool
    window_days: int | None
    finding_id: str
    labels: tuple[str, ...]
    calls: int
    observed_usd: Decimal

    def choose(self, findings: Iterable[Finding]) -> Finding | None:
        """Return the finding among those of today, or None if its calls are others today.

        An account has new calls since, so its finding is the one of the same kind and labels.
        """
        for each in findings:
            labels = (each.detector, each.kind, each.route, each.provider, each.model)
            is_same = each.id == self.finding_id
            is_same = is_same and each.observed_cost_impact_usd == self.observed_usd
            if is_same if self.window_days is None else labels == self.labels:
                return each
        return None


def find_calls_source(connection: Connection, audit_id: str, finding_id: str) -> CallsSource | None:
    """Return the source of a finding's calls; None if the audit has no such finding."""
    columns = (Audit.account_id, Audit.frame_key, Audit.source, Audit.raw_purged_at)
    query = (
        select(*columns, Audit.window_days, FindingRow)
        .join(FindingRow, FindingRow.audit_id == Audit.id)
        .where(Audit.id == audit_id, FindingRow.id == finding_id)
    )
    row = connection.execute(query).one_or_none()
    if row is None or (row.frame_key is None and row.window_days is None):
        return None
    return CallsSource(
        account_id=row.account_id,
        frame_key=row.frame_key or frame_key(audit_id, 0),
        source=row.source,
        is_purged=row.raw_purged_at is not None and row.window_days is None,
        window_days=row.window_days,
        finding_id=finding_id,
        labels=(row.detector, row.kind, row.route, row.provider, row.model),
        calls=row.calls,
        observed_usd=row.observed_cost_impact_usd,
    )
