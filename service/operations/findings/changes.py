"""Changes of an account's findings: their state, assignee and note, each with who and when."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, select, update

from service.models.base import utc_now
from service.models.calls.account_findings import (
    ACKNOWLEDGED,
    DISMISSED,
    FIXED,
    OPEN,
    AccountFinding,
    FindingChange,
    lock_findings,
)

# What a person may do with findings, and the state that follows.
ACTIONS: Final[Mapping[str, str]] = {
    "acknowledge": ACKNOWLEDGED,
    "dismiss": DISMISSED,
    "dismiss_90": DISMISSED,
    "fix": FIXED,
    "reopen": OPEN,
}
_SILENT: Final = timedelta(days=90)
_TIMES: Final = ("fixed_at", "silent_until")
UNDONE_WITHIN: Final = timedelta(minutes=1)


def change_state(
    connection: Connection,
    row: Row[Any],
    state: str,
    *,
    changed_by: str = "",
    reason: str = "",
    batch: str | None = None,
    **values: object,
) -> None:
    """Change the state and say so in the finding's changes; the caller has locked the row."""
    own = AccountFinding.id == row.id
    connection.execute(update(AccountFinding).where(own).values(state=state, **values))
    change: dict[str, Any] = {"before": row.state, "after": state, "changed_by": changed_by}
    if batch is not None:
        times = {name: getattr(row, name) for name in _TIMES}
        restored = {name: time and time.isoformat() for name, time in times.items()}
        change |= {"batch": batch, "restored": restored}
    own_change = {"account_finding_id": row.id, "reason": reason, **change}
    connection.execute(insert(FindingChange).values(own_change))


def change_findings(
    connection: Connection,
    account_id: str,
    finding_ids: Collection[str],
    action: str,
    *,
    changed_by: str,
    reason: str = "",
    batch: str | None = None,
) -> int:
    """Apply an action of a person to those of the findings that the account has.

    Return how many changed; a finding that is in this state already stays as it is, unless it is
    dismissed for another time.
    """
    state, now, changed = ACTIONS[action], utc_now(), 0
    values: dict[str, Any] = {
        "fixed_at": now if state == FIXED else None,
        "silent_until": now + _SILENT if action == "dismiss_90" else None,
    }
    for row in lock_findings(connection, account_id).values():
        is_same = row.state == state and (row.silent_until is None) == (action != "dismiss_90")
        if row.id in finding_ids and not is_same:
            change_state(
                connection, row, state, changed_by=changed_by, reason=reason, batch=batch, **values
            )
            changed += 1
    return changed


def edit_findings(
    connection: Connection,
    account_id: str,
    finding_ids: Collection[str],
    texts: Mapping[str, str],
    *,
    changed_by: str,
    batch: str | None = None,
) -> int:
    """Set the assignee or the note of those of the findings that the account has.

    Return how many changed.
    """
    edited = set[str]()
    for row in lock_findings(connection, account_id).values():
        for field, text in texts.items():
            before = getattr(row, field)
            if row.id in finding_ids and before != text:
                own = update(AccountFinding).where(AccountFinding.id == row.id)
                connection.execute(own.values({field: text}))
                change = {"field": field, "before": before, "after": text}
                own_change = {"account_finding_id": row.id, "changed_by": changed_by}
                own_change |= {"batch": batch} if batch is not None else {}
                connection.execute(insert(FindingChange).values(change | own_change))
                edited.add(row.id)
    return len(edited)


def undo(connection: Connection, account_id: str, batch: str, *, changed_by: str) -> int:
    """Undo the changes that one form of a person made less than a minute ago.

    A finding that was changed again stays as it is. Return how many changed.
    """
    rows = {row.id: row for row in lock_findings(connection, account_id).values()}
    query = select(FindingChange).where(
        FindingChange.account_finding_id.in_(rows),
        FindingChange.batch == batch,
        FindingChange.changed_by == changed_by,
        FindingChange.changed_at > utc_now() - UNDONE_WITHIN,
    )
    undone = 0
    for change in connection.execute(query).all():
        row = rows[change.account_finding_id]
        if getattr(row, change.field) != change.after:
            continue
        values = {
            name: text and datetime.fromisoformat(text)
            for name, text in (change.restored or {}).items()
        }
        own = update(AccountFinding).where(AccountFinding.id == row.id)
        connection.execute(own.values({change.field: change.before, **values}))
        reverse = {"field": change.field, "before": change.after, "after": change.before}
        said = {"account_finding_id": row.id, "changed_by": changed_by}
        connection.execute(insert(FindingChange).values(reverse | said))
        undone += 1
    return undone
