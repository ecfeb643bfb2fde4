"""The job protocol in SQL: who may run an audit, for how long, and who may write its end.

A start is one claim. It takes a lease, which its holder renews, and a token, without which nothing
about the audit can be written. All times are the database's. Callers commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Row, Update, and_, func, or_, select, update

from service.models.audits.audits import DONE, FAILED, PROCESSING, QUEUED, Audit
from service.models.billing.credits import give_back_credit

_NO_LEASE: Final = {"lease_token": None, "lease_expires_at": None}
_UNFINISHED: Final = Audit.status.in_((QUEUED, PROCESSING))
_EXPIRED: Final = and_(Audit.status == PROCESSING, Audit.lease_expires_at < func.now())


@dataclass(frozen=True)
class Claim:
    """The right to run one audit: its `start` counts from 1, its `token` proves the right.

    `start_of_run` counts from 1 again at each rerun and leaves out what was handed back; it alone
    is bounded.
    """

    audit_id: str
    token: str
    start: int
    start_of_run: int
    blob_key: str
    published_frame_key: str | None = None
    is_raw_purged: bool = False

    @property
    def frame_key(self) -> str:
        return self.frame_key_of(self.start)

    @property
    def earlier_frame_keys(self) -> list[str]:
        """Where starts that were killed may have left frames."""
        return [self.frame_key_of(start) for start in range(1, self.start)]

    def frame_key_of(self, start: int) -> str:
        return f"frames/{self.audit_id}-{start}.parquet"


def gave_up_message(max_starts: int) -> str:
    """What the account reads of an audit that no start could finish."""
    return (
        f"The audit ended unexpectedly in each of its {max_starts} attempts and was given up. "
        "Your records are stored; quote the audit's id when you report this."
    )


def claim_audit(
    connection: Connection, audit_id: str, *, lease_seconds: float, max_starts: int
) -> Claim | None:
    """Take the audit if it is queued, or if whoever ran it let the lease run out.

    One UPDATE whose conditions PostgreSQL checks again after waiting for another's: of any number
    of claimants one succeeds.
    """
    token = uuid4().hex
    statement = (
        update(Audit)
        .where(Audit.id == audit_id, _starts_of_run() < max_starts)
        .where(or_(Audit.status == QUEUED, _EXPIRED))
        .values(
            status=PROCESSING,
            starts=Audit.starts + 1,
            lease_token=token,
            lease_expires_at=_in(lease_seconds),
            started_at=func.now(),
        )
        .returning(
            Audit.starts,
            _starts_of_run(),
            Audit.blob_key,
            Audit.frame_key,
            Audit.raw_purged_at.is_not(None),
        )
    )
    row = connection.execute(statement).one_or_none()
    return Claim(audit_id, token, *row) if row else None


def renew_lease(connection: Connection, claim: Claim, lease_seconds: float) -> bool:
    """Hold the audit for longer; false where it is no longer this claim's."""
    return _update(connection, _held(claim).values(lease_expires_at=_in(lease_seconds)))


def note_valid_pct(connection: Connection, claim: Claim, valid_pct: float) -> bool:
    return _update(connection, _held(claim).values(valid_pct=valid_pct))


def finish_audit(connection: Connection, claim: Claim, totals: Mapping[str, Any]) -> bool:
    """Mark the audit done; false, and nothing written, where it is no longer this claim's."""
    done = {"status": DONE, "error": None, "finished_at": func.now(), **_NO_LEASE}
    return _update(connection, _held(claim).values({**totals, **done}))


def is_finished(connection: Connection, audit_id: str, frame_key: str) -> bool:
    """Whether the audit is done with this very frame: an end whose answer was lost."""
    query = select(Audit.id).where(Audit.id == audit_id, Audit.status == DONE)
    return connection.scalar(query.where(Audit.frame_key == frame_key)) is not None


def fail_audit(connection: Connection, claim: Claim, error: str) -> bool:
    """End the audit with a reason and give its credit back; false where it is another's by now."""
    has_failed = _update(connection, _held(claim).values(_failed(error)))
    if has_failed:
        give_back_credit(connection, claim.audit_id)
    return has_failed


def give_back(connection: Connection, claim: Claim) -> bool:
    """Queue the audit again; the start that was used stays counted."""
    return _update(connection, _held(claim).values(status=QUEUED, **_NO_LEASE))


def hand_back(connection: Connection, claim: Claim) -> str | None:
    """Queue the audit again for another worker, as if this start had never been.

    Returns the audit's source; None where it is no longer this claim's.
    """
    uncounted = Audit.starts_before_rerun + 1  # `starts` itself names frames, so it never falls
    queued = {"status": QUEUED, "starts_before_rerun": uncounted, "valid_pct": None, **_NO_LEASE}
    return connection.scalar(_held(claim).values(queued).returning(Audit.source))


def fail_exhausted(connection: Connection, max_starts: int) -> Sequence[str]:
    """End the audits that nobody runs and nobody may start again; returns their ids.

    Their credits come back.
    """
    nobody_runs = or_(Audit.status == QUEUED, _EXPIRED)
    statement = (
        update(Audit)
        .where(_UNFINISHED, nobody_runs, _starts_of_run() >= max_starts)
        .values(_failed(gave_up_message(max_starts)))
        .returning(Audit.id)
    )
    failed = connection.scalars(statement).all()
    for audit_id in failed:
        give_back_credit(connection, audit_id)
    return failed


def requeue_expired(connection: Connection) -> Sequence[str]:
    """Queue the audits whose leases ran out; returns their ids."""
    statement = (
        update(Audit)
        .where(_UNFINISHED, _EXPIRED)
        .values(status=QUEUED, **_NO_LEASE)
        .returning(Audit.id)
    )
    return connection.scalars(statement).all()


def list_queued(
    connection: Connection, *, older_than_seconds: float, after: tuple[datetime, str] | None
) -> Sequence[Row[str, str, int, datetime]]:
    """A page of the queued audits whose last wake-up is not quite fresh, oldest first."""
    woken_at = func.coalesce(Audit.enqueued_at, Audit.created_at)
    place = (Audit.created_at, Audit.id)
    statement = (
        select(Audit.id, Audit.source, Audit.starts, Audit.created_at)
        .where(_UNFINISHED, Audit.status == QUEUED, woken_at < _in(-older_than_seconds))
        .order_by(*place)
        .limit(_PAGE)
    )
    if after is not None:
        statement = statement.where(_after(after))
    return connection.execute(statement).all()


def note_enqueued(connection: Connection, audit_ids: Sequence[str]) -> None:
    statement = update(Audit).where(Audit.id.in_(audit_ids), Audit.status == QUEUED)
    connection.execute(statement.values(enqueued_at=func.now()))


_PAGE: Final = 1_000


def _starts_of_run() -> ColumnElement[int]:
    """The starts that count: a rerun may be started as often as the first run."""
    return Audit.starts - Audit.starts_before_rerun


def _held(claim: Claim) -> Update:
    """The fence: a token is replaced by the next claim and erased by the end."""
    return update(Audit).where(
        Audit.id == claim.audit_id,
        Audit.lease_token == claim.token,
        Audit.status == PROCESSING,
    )


def _update(connection: Connection, statement: Update) -> bool:
    return connection.execute(statement).rowcount == 1


def _failed(error: str) -> dict[str, Any]:
    return {"status": FAILED, "error": error, "finished_at": func.now(), **_NO_LEASE}


def _in(seconds: float) -> ColumnElement[datetime]:
    return func.now() + timedelta(seconds=seconds)


def _after(place: tuple[datetime, str]) -> ColumnElement[bool]:
    created_at, audit_id = place
    same_time = and_(Audit.created_at == created_at, Audit.id > audit_id)
    return or_(Audit.created_at > created_at, same_time)
