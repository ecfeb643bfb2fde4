"""The job protocol in SQL: who may process an audit, for how long, and who may publish it.

An attempt is one claim. It takes a lease, which its holder renews, and a token that every later
write must carry. All times are the database's. Callers commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Row,
    Update,
    and_,
    case,
    cast,
    column,
    func,
    literal,
    or_,
    select,
    update,
    values,
)

from service.models.audits.audits import (
    ACCOUNT,
    DONE,
    FAILED,
    PROCESSING,
    QUEUED,
    Audit,
    ReportRow,
)
from service.models.audits.blob_keys import frame_key
from service.models.base import from_now
from service.models.billing.credits import return_credit

_NO_LEASE: Final = {"lease_token": None, "lease_expires_at": None}
_NO_OUTAGE: Final = {"outages": 0, "resume_at": None}
_ENDED: Final = {**_NO_LEASE, **_NO_OUTAGE, "traceparent": None}
_UNFINISHED: Final = Audit.status.in_((QUEUED, PROCESSING))
EXPIRED: Final = and_(Audit.status == PROCESSING, Audit.lease_expires_at < func.now())
# Queued, and no pause after an outage.
READY: Final = and_(
    Audit.status == QUEUED, or_(Audit.resume_at.is_(None), Audit.resume_at <= func.now())
)
CANCELED: Final = "You canceled this audit."
_FIRST_PAUSE_SECONDS: Final = 2.0
_LONGEST_PAUSE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Claim:
    """The right to process one audit: `attempt` counts from 1, `token` proves the right.

    `counted_attempt` restarts at 1 with each rerun and skips requeued attempts; only it is limited.
    """

    audit_id: str
    token: str
    attempt: int
    counted_attempt: int
    blob_key: str
    received_at: datetime
    published_frame_key: str | None = None
    is_raw_purged: bool = False
    account_id: str = ""
    window_days: int | None = None  # of an audit of the account
    content_hash: bytes | None = None  # of an upload
    traceparent: str | None = None  # of its request, if that was traced
    outages: int = 0  # how many attempts before this one an outage has ended

    @property
    def frame_key(self) -> str:
        return frame_key(self.audit_id, self.attempt)

    @property
    def earlier_frame_keys(self) -> list[str]:
        """Return where killed attempts may have left frames."""
        return [frame_key(self.audit_id, attempt) for attempt in range(1, self.attempt)]


def gave_up_message(max_attempts: int) -> str:
    """Return the error message of an audit that no attempt could finish."""
    return (
        f"The audit ended unexpectedly in each of its {max_attempts} attempts and was given up. "
        "Your records are stored; include the audit ID when you report this."
    )


def claim_each(
    connection: Connection, audit_ids: Sequence[str], *, lease_seconds: float, max_attempts: int
) -> list[Claim]:
    """Claim those of the audits that are queued or whose lease has expired, in this order.

    One UPDATE whose conditions PostgreSQL checks again after waiting for another's: of any number
    of claimants one succeeds.
    """
    token = uuid4().hex
    statement = (
        update(Audit)
        .where(Audit.id.in_(audit_ids), counted_attempts() < max_attempts)
        .where(or_(READY, EXPIRED))
        .values(
            status=PROCESSING,
            attempts=Audit.attempts + 1,
            lease_token=token,
            lease_expires_at=from_now(lease_seconds),
            started_at=func.now(),
        )
        .returning(
            Audit.id,
            literal(token),
            Audit.attempts,
            counted_attempts(),
            Audit.blob_key,
            Audit.created_at,
            Audit.frame_key,
            Audit.raw_purged_at.is_not(None),
            Audit.account_id,
            Audit.window_days,
            Audit.content_hash,
            Audit.traceparent,
            Audit.outages,
        )
    )
    claimed = {row[0]: Claim(*row) for row in connection.execute(statement)}
    return [claimed[audit_id] for audit_id in audit_ids if audit_id in claimed]


def renew_lease(connection: Connection, claim: Claim, lease_seconds: float) -> bool:
    """Extend the lease; return False if the claim no longer holds the audit."""
    return _update(connection, _held(claim).values(lease_expires_at=from_now(lease_seconds)))


def save_valid_pct(connection: Connection, claim: Claim, valid_pct: float) -> bool:
    """Save the share of valid rows, unless an earlier attempt at the same records has saved it."""
    return _update(
        connection, _held(claim).values(valid_pct=func.coalesce(Audit.valid_pct, valid_pct))
    )


def finish_each(connection: Connection, totals: Mapping[Claim, Mapping[str, Any]]) -> set[Claim]:
    """Mark the audits done, each with its totals; return the claims that held their audits."""
    names = ("id", "lease_token", *next(iter(totals.values())))
    columns = [column(name, Audit.__table__.c[name].type) for name in names]
    rows = [(claim.audit_id, claim.token, *each.values()) for claim, each in totals.items()]
    new = values(*columns, name="new").data(rows)
    done = {"status": DONE, "error": None, "finished_at": func.now(), **_ENDED}
    statement = (
        update(Audit)
        .where(Audit.id == new.c.id, Audit.lease_token == new.c.lease_token)
        .where(Audit.status == PROCESSING)
        # Cast, because PostgreSQL takes a column of nulls as text.
        .values({**done, **{name: cast(new.c[name], new.c[name].type) for name in names[2:]}})
        .returning(Audit.id)
    )
    held = set(connection.scalars(statement))
    return {claim for claim in totals if claim.audit_id in held}


def is_finished(connection: Connection, claim: Claim) -> bool:
    """Check whether this attempt has published already, in case a commit's answer was lost."""
    query = select(Audit.id).where(Audit.id == claim.audit_id, Audit.status == DONE)
    has_frame = Audit.frame_key == claim.frame_key
    if claim.window_days is not None:
        has_frame = and_(Audit.attempts == claim.attempt, Audit.error.is_(None))
    return connection.scalar(query.where(has_frame)) is not None


def fail_audit(connection: Connection, claim: Claim, error: str) -> bool:
    """End the audit with a reason and return its credit; False if the claim lost the audit."""
    has_failed = _update(connection, _held(claim).values(_failed(error)))
    if has_failed:
        return_credit(connection, claim.audit_id)
    return has_failed


def cancel_audit(connection: Connection, account_id: str, audit_id: str) -> bool:
    """End an account's audit that waits or runs; its holder learns it at the next renewal."""
    own = update(Audit).where(Audit.id == audit_id, Audit.account_id == account_id)
    unfinished = own.where(_UNFINISHED, Audit.source == ACCOUNT)
    return _update(connection, unfinished.values(_failed(CANCELED)))


def retry_audit(connection: Connection, claim: Claim) -> bool:
    """Queue the audit for another attempt; this one stays counted."""
    return _update(connection, _held(claim).values(status=QUEUED, **_NO_LEASE))


def requeue_audit(connection: Connection, claim: Claim) -> str | None:
    """Queue the audit for another worker without counting this attempt.

    Return the audit's source, or None if the claim no longer holds it.
    """
    uncounted = Audit.uncounted_attempts + 1  # `attempts` itself names frames, so it never falls
    queued = {"status": QUEUED, "uncounted_attempts": uncounted, **_NO_LEASE}
    return connection.scalar(_held(claim).values(queued).returning(Audit.source))


def postpone_audit(connection: Connection, claim: Claim) -> bool:
    """Queue the audit again after an outage, without counting this attempt.

    The pause doubles with each attempt. Return False if the claim no longer holds the audit, whose
    lease has expired meanwhile; this attempt doesn't count then, either.
    """
    uncounted = {"uncounted_attempts": Audit.uncounted_attempts + 1}
    pause = min(_FIRST_PAUSE_SECONDS * 2.0**claim.outages, _LONGEST_PAUSE_SECONDS)
    queued = {"status": QUEUED, "outages": Audit.outages + 1, "resume_at": from_now(pause)}
    if _update(connection, _held(claim).values(queued | uncounted | _NO_LEASE)):
        return True
    own = update(Audit).where(Audit.id == claim.audit_id, Audit.attempts >= claim.attempt)
    connection.execute(own.where(_UNFINISHED, counted_attempts() > 0).values(uncounted))
    return False


def extend_leases(connection: Connection, lease_seconds: float) -> None:
    """Extend the leases that expired while the database was away and couldn't be renewed."""
    statement = update(Audit).where(_UNFINISHED, EXPIRED)
    connection.execute(statement.values(lease_expires_at=from_now(lease_seconds)))


def fail_exhausted(connection: Connection, max_attempts: int) -> Sequence[str]:
    """Fail the audits that have no attempts left; return their IDs.

    Their credits are returned.
    """
    nobody_runs = or_(Audit.status == QUEUED, EXPIRED)
    statement = (
        update(Audit)
        .where(_UNFINISHED, nobody_runs, counted_attempts() >= max_attempts)
        .values(_failed(gave_up_message(max_attempts)))
        .returning(Audit.id)
    )
    failed = connection.scalars(statement).all()
    for audit_id in failed:
        return_credit(connection, audit_id)
    return failed


def requeue_expired(connection: Connection) -> Sequence[Row[str, float]]:
    """Queue the audits whose leases have expired; return their IDs and the attempts' seconds."""
    seconds = cast(func.extract("epoch", func.now() - Audit.started_at), Float)
    statement = (
        update(Audit)
        .where(_UNFINISHED, EXPIRED)
        .values(status=QUEUED, **_NO_LEASE)
        .returning(Audit.id, seconds)
    )
    return connection.execute(statement).all()


def list_queued(
    connection: Connection, *, older_than_seconds: float, after: tuple[datetime, str] | None
) -> Sequence[Row[str, str, int, datetime]]:
    """Return a page of queued audits with no recent wake-up, oldest first."""
    woken_at = func.coalesce(Audit.enqueued_at, Audit.created_at)
    order = (Audit.created_at, Audit.id)
    statement = (
        select(Audit.id, Audit.source, Audit.attempts.label("attempts"), Audit.created_at)
        .where(_UNFINISHED, READY, woken_at < from_now(-older_than_seconds))
        .order_by(*order)
        .limit(_PAGE)
    )
    if after is not None:
        created_at, audit_id = after
        same_time = and_(Audit.created_at == created_at, Audit.id > audit_id)
        statement = statement.where(or_(Audit.created_at > created_at, same_time))
    return connection.execute(statement).all()


def mark_enqueued(connection: Connection, audit_ids: Sequence[str]) -> None:
    statement = update(Audit).where(Audit.id.in_(audit_ids), Audit.status == QUEUED)
    connection.execute(statement.values(enqueued_at=func.now()))


_PAGE: Final = 1_000


def counted_attempts() -> ColumnElement[int]:
    """Return the attempts that count toward the limit, which starts over with each rerun."""
    return Audit.attempts - Audit.uncounted_attempts


def _held(claim: Claim) -> Update:
    """Return an UPDATE that matches only while the claim holds the audit (the fence)."""
    return update(Audit).where(
        Audit.id == claim.audit_id,
        Audit.lease_token == claim.token,
        Audit.status == PROCESSING,
    )


def _update(connection: Connection, statement: Update) -> bool:
    return connection.execute(statement).rowcount == 1


def _failed(error: str) -> dict[str, Any]:
    """Return the columns of an audit that ends with an error.

    If it has a report, what failed is its recalculation: it goes back to that report.
    """
    published = select(ReportRow.created_at).where(ReportRow.audit_id == Audit.id)
    published_at = published.scalar_subquery()
    return {
        "status": case((published_at.is_not(None), DONE), else_=FAILED),
        "error": error,
        "finished_at": func.coalesce(published_at, func.now()),
        **_ENDED,
    }
