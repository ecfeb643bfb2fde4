"""Findings of an account over time: where they stand, what they cost by day, and who changed what.

An account's finding is identified by detector, kind, route, provider and model.
"""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ColumnElement,
    Connection,
    ForeignKey,
    LargeBinary,
    Numeric,
    Row,
    UniqueConstraint,
    func,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from detectors.contract import Finding
from service.models.base import Base, Owned

OPEN, ACKNOWLEDGED, DISMISSED, FIXED, RETURNED = STATES = (
    *("open", "acknowledged", "dismissed", "fixed", "returned"),
)
STATE, ASSIGNEE, NOTE = FIELDS = ("state", "assignee", "note")
MAX_ASSIGNEE: Final = 120
MAX_NOTE: Final = 2_000
# States in which a finding is still to be fixed.
UNRESOLVED: Final = (OPEN, ACKNOWLEDGED, RETURNED)
_USD: Final = Numeric(30, 9)


class AccountFinding(Owned, Base):
    """A finding of an account, with the figures of the latest audit of the account."""

    __tablename__ = "account_findings"
    __table_args__ = (
        UniqueConstraint("account_id", "identity"),
        CheckConstraint(f"state IN {STATES}", name="state"),
    )

    identity: Mapped[bytes] = mapped_column(LargeBinary)  # labels are too long for a key
    detector: Mapped[str]
    kind: Mapped[str]
    route: Mapped[str]
    provider: Mapped[str]
    model: Mapped[str]
    state: Mapped[str] = mapped_column(default=OPEN)
    # Of the latest audit in which it was found; the figures are 0 if the latest audit lacks it.
    audit_id: Mapped[str]
    finding_id: Mapped[str]
    severity: Mapped[str]
    confidence: Mapped[str]
    fix: Mapped[str]
    calls: Mapped[int] = mapped_column(BigInteger)
    monthly_usd: Mapped[Decimal] = mapped_column(_USD)
    observed_usd: Mapped[Decimal] = mapped_column(_USD)
    # Of the monthly dollars; null until an audit finds it again.
    impact_low: Mapped[Decimal | None] = mapped_column(_USD)
    impact_high: Mapped[Decimal | None] = mapped_column(_USD)
    suggested_model: Mapped[str | None]
    # False if that audit had too little data to project a month: the dollars are its period's.
    is_monthly: Mapped[bool] = mapped_column(default=True, server_default=true())
    first_seen: Mapped[datetime]
    last_seen: Mapped[datetime]
    fixed_at: Mapped[datetime | None]
    silent_until: Mapped[datetime | None]  # of a dismissed one; null if it is for good
    note: Mapped[str] = mapped_column(default="", server_default="")
    assignee: Mapped[str] = mapped_column(default="", server_default="")


class FindingRecord(Base):
    """The figures of a finding in one audit of the account."""

    __tablename__ = "account_finding_history"

    account_finding_id: Mapped[str] = mapped_column(
        ForeignKey("account_findings.id", ondelete="CASCADE"), primary_key=True
    )
    audit_id: Mapped[str] = mapped_column(primary_key=True)
    audited_at: Mapped[datetime] = mapped_column(server_default=func.now(), index=True)
    calls: Mapped[int] = mapped_column(BigInteger)
    monthly_usd: Mapped[Decimal] = mapped_column(_USD)
    observed_usd: Mapped[Decimal] = mapped_column(_USD)


class FindingSaving(Base):
    """What a finding could have saved on one day of call, in UTC."""

    __tablename__ = "account_finding_days"

    account_finding_id: Mapped[str] = mapped_column(
        ForeignKey("account_findings.id", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[date] = mapped_column(primary_key=True)
    calls: Mapped[int] = mapped_column(BigInteger)
    saving_usd: Mapped[Decimal] = mapped_column(_USD)


class FindingChange(Base):
    """A change of a finding: by a person, or of its state by an audit of the account."""

    __tablename__ = "account_finding_changes"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    account_finding_id: Mapped[str] = mapped_column(
        ForeignKey("account_findings.id", ondelete="CASCADE"), index=True
    )
    changed_at: Mapped[datetime] = mapped_column(server_default=func.now())
    changed_by: Mapped[str]  # an email address; empty for an audit
    field: Mapped[str] = mapped_column(default=STATE, server_default=STATE)
    before: Mapped[str]
    after: Mapped[str]
    reason: Mapped[str] = mapped_column(default="", server_default="")
    # The changes that one form made, and the values that undoing one of them restores.
    batch: Mapped[str | None]
    restored: Mapped[dict[str, str | None] | None] = mapped_column(JSONB)


def identify(finding: Finding) -> bytes:
    """Return what makes a finding the same in every audit of the account."""
    labels = (finding.detector, finding.kind, finding.route, finding.provider, finding.model)
    return sha256("\0".join(labels).encode()).digest()


def lock_findings(
    connection: Connection, account_id: str, *matches: ColumnElement[bool]
) -> Mapping[bytes, Row[Any]]:
    """Return the account's findings that match by identity, with their rows locked."""
    query = select(AccountFinding).where(AccountFinding.account_id == account_id, *matches)
    rows = connection.execute(query.order_by(AccountFinding.id).with_for_update()).all()
    return {row.identity: row for row in rows}
