"""Whose audit is next: accounts take turns, per source, so that none waits for another's backlog.

Each account's first waiting audit comes first, then each account's second, and so on. Among equals,
the account whose last claim is oldest goes first. An account's recalculations come after its other
audits. Workers serve the queues of the sources in turn. The queue position counts in this order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, and_, func, or_, select, text, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.audits.audits import QUEUED, SOURCES, Audit
from service.models.audits.leases import EXPIRED, READY, Claim, claim_each, counted_attempts
from service.models.base import Base, OwnerKey

# An arbitrary number: every claim of a source takes the same lock, so that each sees the last.
_CLAIMS_LOCK: Final = 725_501
# A claim leaves the rest of a short queue to other workers.
_SHARE: Final = 8


_Waiting = Select[*tuple[Any, ...]]


class AccountTurn(Base):
    """When a worker last claimed an audit of the account."""

    __tablename__ = "account_turns"

    account_id: Mapped[OwnerKey]
    source: Mapped[str] = mapped_column(primary_key=True)
    claimed_at: Mapped[datetime]


@dataclass(frozen=True, kw_only=True)
class ClaimLimits:
    """The lease of a claim, and how many small audits may be claimed at once."""

    lease_seconds: float
    max_attempts: int
    max_audits: int = 1
    max_records: int = 0


def claim_next(connection: Connection, source: str, limits: ClaimLimits) -> list[Claim]:
    """Claim the next audit of a source or, from a long queue, the next few if they are small."""
    lock = text("SELECT pg_advisory_xact_lock(:lock, :source)")
    connection.execute(lock, {"lock": _CLAIMS_LOCK, "source": SOURCES.index(source)})
    few = _in_turn(source).where(counted_attempts() < limits.max_attempts)
    rows = connection.execute(few.limit(limits.max_audits)).all()
    owners = {row.id: row.account_id for row in _choose(rows, limits)}
    claims = claim_each(
        connection,
        list(owners),
        lease_seconds=limits.lease_seconds,
        max_attempts=limits.max_attempts,
    )
    # Let other accounts go first next time.
    turns = [
        {"account_id": account_id, "source": source, "claimed_at": func.now()}
        for account_id in sorted({owners[claim.audit_id] for claim in claims})
    ]
    if turns:
        statement = insert(AccountTurn).values(turns)
        later = {"claimed_at": statement.excluded.claimed_at}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["account_id", "source"], set_=later)
        )
    return claims


def find_source(connection: Connection, audit_id: str) -> tuple[str, bool] | None:
    """Return the audit's source and whether it waits for a worker, if it exists."""
    query = select(Audit.source, READY).where(Audit.id == audit_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else (row[0], row[1])


def count_ahead(session: Session, audit: Audit) -> int:
    """Count the audits that workers will claim before this one, in all queues.

    If audits of two queues have the same position, the older one counts as first. One that pauses
    after an outage counts all that pause as well, as if the pauses were over.
    """
    waiting = _in_turn if audit.resume_at is None else _in_turn_after_pauses
    order = waiting(audit.source).subquery()
    position = session.scalar(select(order.c.position).where(order.c.id == audit.id)) or 1
    here = (position, audit.created_at, audit.id)
    ahead = position - 1
    for source in SOURCES:
        if source != audit.source:
            other = waiting(source).subquery()
            there = tuple_(other.c.position, other.c.created_at, other.c.id)
            count = select(func.count()).select_from(other).where(there < here)
            ahead += session.scalar(count) or 0
    return ahead


@cache
def _in_turn(source: str) -> _Waiting:
    """Return the waiting audits of a source in the order in which workers claim them."""
    return _order(source, or_(READY, EXPIRED))


@cache
def _in_turn_after_pauses(source: str) -> _Waiting:
    return _order(source, or_(Audit.status == QUEUED, EXPIRED))


def _order(source: str, is_waiting: ColumnElement[bool]) -> _Waiting:
    waiting = (Audit.source == source, is_waiting)
    turn = func.row_number().over(
        partition_by=Audit.account_id,
        order_by=(Audit.frame_key.is_not(None), Audit.created_at, Audit.id),
    )
    turns = select(Audit.id, Audit.account_id, Audit.created_at, turn.label("turn"))
    waiting_turns = turns.where(*waiting).subquery()
    last = and_(AccountTurn.account_id == waiting_turns.c.account_id, AccountTurn.source == source)
    order = (
        waiting_turns.c.turn,
        AccountTurn.claimed_at.asc().nulls_first(),
        waiting_turns.c.created_at,
        waiting_turns.c.id,
    )
    return (
        select(
            Audit.id,
            Audit.account_id,
            Audit.created_at,
            Audit.records,
            counted_attempts().label("earlier_attempts"),
            func.row_number().over(order_by=order).label("position"),
            func.count().over().label("waiting"),
        )
        .join(waiting_turns, waiting_turns.c.id == Audit.id)
        .outerjoin(AccountTurn, last)
        .order_by(*order)
    )


def _choose(rows: Sequence[Row[*tuple[Any, ...]]], limits: ClaimLimits) -> Iterable[Any]:
    """Yield the first audit, and those after it that are small enough to be audited with it.

    An audit whose earlier attempt ended unexpectedly is alone, because it may end others as well.
    """
    records = 0
    for number, row in enumerate(rows):
        records += row.records
        is_small = records <= limits.max_records and not row.earlier_attempts
        if number and (not is_small or number >= row.waiting // _SHARE):
            return
        yield row
        if not is_small:
            return
