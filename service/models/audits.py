"""Audits, their findings, their reports, and the idempotency keys that lead to them.

An audit's row is the only truth about its job: Redis merely carries wake-ups.
"""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import CheckConstraint, ForeignKey, Index, Numeric, text
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import BigInteger, LargeBinary

from service.models.base import Base, new_id, utc_now

QUEUED, PROCESSING, DONE, FAILED = STATUSES = ("queued", "processing", "done", "failed")
INGEST, UPLOAD = SOURCES = ("ingest", "upload")

_USD = Numeric(24, 9)


class Audit(Base):
    __tablename__ = "audits"
    __table_args__ = (
        CheckConstraint(f"status IN {STATUSES}", name="status"),
        CheckConstraint(f"source IN {SOURCES}", name="source"),
        Index("ix_audits_account_created", "account_id", "created_at", "id"),
        # What the sweeper and the queue position look at: never more than the unfinished few.
        Index(
            "ix_audits_unfinished",
            "source",
            "created_at",
            "id",
            postgresql_where=text("status IN ('queued', 'processing')"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    source: Mapped[str]
    status: Mapped[str] = mapped_column(default=QUEUED)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    blob_key: Mapped[str]  # the re-encoded records
    frame_key: Mapped[str | None]  # the normalised Parquet frame, once audited

    # The job protocol: `starts` counts claims, the token fences off an orphaned job.
    starts: Mapped[int] = mapped_column(default=0)
    enqueued_at: Mapped[datetime | None]
    lease_token: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    error: Mapped[str | None]

    # Totals of the report document; 0 until computed.
    records: Mapped[int] = mapped_column(BigInteger, default=0)
    valid_pct: Mapped[float | None]
    observed_days: Mapped[int] = mapped_column(default=0)
    total_spend_usd: Mapped[Decimal] = mapped_column(_USD, default=Decimal(0))
    projected_spend_usd: Mapped[Decimal] = mapped_column(_USD, default=Decimal(0))
    projected_savings_usd: Mapped[Decimal] = mapped_column(_USD, default=Decimal(0))
    savings_pct: Mapped[float] = mapped_column(default=0.0)
    equiv_spend: Mapped[bool] = mapped_column(default=False)
    findings_count: Mapped[int] = mapped_column(default=0)


class FindingRow(Base):
    """One finding of an audit's current report, as the read API lists it."""

    __tablename__ = "findings"

    audit_id: Mapped[str] = mapped_column(
        ForeignKey("audits.id", ondelete="CASCADE"), primary_key=True
    )
    rank: Mapped[int] = mapped_column(primary_key=True)  # from 1, by monthly impact
    id: Mapped[str]  # d1-001
    detector: Mapped[str]
    kind: Mapped[str]
    route: Mapped[str]
    provider: Mapped[str]
    model: Mapped[str]
    calls: Mapped[int] = mapped_column(BigInteger)
    severity: Mapped[str]
    confidence: Mapped[str]
    monthly_cost_impact_usd: Mapped[Decimal] = mapped_column(_USD)
    observed_cost_impact_usd: Mapped[Decimal] = mapped_column(_USD)
    fix: Mapped[str]


class ReportRow(Base):
    """The report document of an audit, byte for byte as the detectors wrote it."""

    __tablename__ = "reports"

    audit_id: Mapped[str] = mapped_column(
        ForeignKey("audits.id", ondelete="CASCADE"), primary_key=True
    )
    document: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class IdempotencyKey(Base):
    """Remembered as long as its audit."""

    __tablename__ = "idempotency_keys"

    account_id: Mapped[str] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True
    )
    route: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    audit_id: Mapped[str] = mapped_column(ForeignKey("audits.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
