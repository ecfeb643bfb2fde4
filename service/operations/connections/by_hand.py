"""Store a report that somebody downloaded from a provider: its days replace those stored before."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from service.connections.exports import Reading, UnreadableExportError
from service.connections.provider import DAY, CostLine, TotalsLine
from service.models.base import utc_now
from service.models.connections.bill import forget_locks_of
from service.models.connections.connections import (
    ProviderConnection,
    UnknownOrganizationError,
    find_by_hand,
)
from service.models.connections.reported import (
    UPLOADED,
    ReportedCost,
    ReportedUsage,
    add_pull,
    replace_rows,
    save_names,
)
from service.operations.connections.rows import load_prices, make_row


def store_reading(session: Session, account_id: str, reading: Reading) -> ProviderConnection:
    """Store a report, and return where the part of its first organization is.

    The caller commits, and lets the spend be compared again.
    """
    try:
        held = [
            _store(session, account_id, reading, organization, lines)
            for organization, lines in reading.by_organization.items()
        ]
    except UnknownOrganizationError as error:
        raise UnreadableExportError(
            "This file doesn't say which organization it is of, and you have reports of several. "
            "Upload that organization's costs first, or delete the others' reports."
        ) from error
    return held[0]


def _store(
    session: Session,
    account_id: str,
    reading: Reading,
    organization: str,
    lines: Sequence[TotalsLine],
) -> ProviderConnection:
    began_at, export = utc_now(), reading.export
    projects = {line.project_id for line in lines} - {""}
    held = find_by_hand(session, account_id, export.provider, organization, projects)
    connection = session.connection()
    _name, prices = load_prices(connection, account_id, export.provider)
    owner = {"account_id": account_id, "connection_id": held.id}
    rows: dict[Any, list[dict[str, Any]]] = {ReportedUsage: [], ReportedCost: []}
    for line in lines:
        table = ReportedCost if isinstance(line, CostLine) else ReportedUsage
        row = make_row(line, prices, keeps_names=held.keeps_names)
        rows[table].append({**owner, "report": export.name, **row})
    within = (reading.first, reading.end)
    for table, found in rows.items():
        replace_rows(connection, table, held.id, export.name, within, found)
    # Corrections are measured from locked sums, which lack these days.
    days = (reading.first.date(), (reading.end - DAY).date())
    forget_locks_of(session, account_id, export.provider, held.id, days)
    if held.keeps_names:
        known = {"parent_id": "", "is_active": True}
        names = [
            {**owner, **known, "kind": name.kind, "name_id": name.id, "name": name.name}
            for name in reading.names
            if name.id in projects
        ]
        save_names(connection, names)
    add_pull(
        session,
        **owner,
        report=export.name,
        first_at=reading.first,
        last_at=reading.end,
        rows=len(lines),
        outcome=UPLOADED,
        began_at=began_at,
    )
    held.removed_at, held.next_pull_at = None, utc_now()
    return held


def describe_reading(reading: Reading) -> str:
    """Return what a file was: "OpenAI's costs by day, Sep 1 to Sep 30, 2026: 412 rows"."""
    first, last = reading.first, max(line.bucket for line in reading.lines)
    days = f"{last:%b %-d, %Y}" if first == last else f"{first:%b %-d, %Y} to {last:%b %-d, %Y}"
    said = f"{reading.export.what}, {days}: {reading.rows:,} row{'' if reading.rows == 1 else 's'}"
    left_out = f", {reading.left_out:,} of them about something else" if reading.left_out else ""
    return f"{said}{left_out}"
