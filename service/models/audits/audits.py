"""Audits with their findings, reports and idempotency keys.

An audit's row is the source of truth about its job; Redis only carries wake-ups.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Numeric,
    func,
    select,
    text,
)
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.types import BigInteger, LargeBinary

from service.core.packing import PackedBytes
from service.models.base import Base, Owner, new_id, utc_now

QUEUED, PROCESSING, DONE, FAILED = STATUSES = ("queued", "processing", "done", "failed")
INGEST, UPLOAD, ACCOUNT = SOURCES = ("ingest", "upload", "account")

_USD = Numeric(30, 9)  # the most expensive log in the contract needs 17 integer digits


class Audit(Base):
    __tablename__ = "audits"
    __table_args__ = (
        CheckConstraint(f"status IN {STATUSES}", name="status"),
        CheckConstraint(f"source IN {SOURCES}", name="source"),
        Index("ix_audits_account_created", "account_id", "created_at", "id"),
        Index("ix_audits_account_status", "account_id", "status", "created_at", "id"),
        # For the sweeper and the queue position; it contains only unfinished audits.
        Index(
            "ix_audits_unfinished",
            "source",
            "created_at",
            "id",
            postgresql_where=text("status IN ('queued', 'processing')"),
        ),
        Index("ix_audits_created", "created_at", "id"),
        # For housekeeping; it contains only audits of the last days.
        Index(
            "ix_audits_raw_kept",
            "finished_at",
            "id",
            postgresql_where=text("raw_purged_at IS NULL"),
        ),
        # The same for reports of batches, and for audits of accounts.
        Index(
            "ix_audits_report_kept",
            "finished_at",
            postgresql_where=text(
                "source = 'ingest' AND status = 'done' AND report_deleted_at IS NULL"
            ),
        ),
        Index("ix_audits_account", "finished_at", postgresql_where=text("source = 'account'")),
        # For recognizing a file that the account has uploaded before.
        Index(
            "ix_audits_content",
            "account_id",
            "content_hash",
            postgresql_where=text("content_hash IS NOT NULL"),
        ),
        # The audits of accounts, which are few among those of their imports.
        Index(
            "ix_audits_of_account",
            *("account_id", "created_at", "id"),
            postgresql_where=text("source = 'account'"),
        ),
        # The uploads of an account, which may be few among its batches.
        Index(
            "ix_audits_uploads",
            "account_id",
            "created_at",
            postgresql_where=text("source = 'upload'"),
        ),
        # For the clients of an account and when each was last seen.
        Index(
            "ix_audits_clients",
            "account_id",
            text("coalesce(client, '')"),
            text("coalesce(environment, '')"),
            "created_at",
            postgresql_where=text("source = 'ingest'"),
        ),
        # An account has at most one unfinished audit of itself.
        Index(
            "uq_audits_unfinished_account",
            "account_id",
            unique=True,
            postgresql_where=text("source = 'account' AND status IN ('queued', 'processing')"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[Owner]
    source: Mapped[str]
    status: Mapped[str] = mapped_column(default=QUEUED)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    blob_key: Mapped[str]  # the re-encoded records; of an audit of the account, empty
    window_days: Mapped[int | None]  # of an audit of the account
    frame_key: Mapped[str | None]  # the normalized calls as Parquet, once audited
    client: Mapped[str | None]  # of a batch: the label of its ingest key, or the key's prefix
    environment: Mapped[str | None]  # of all calls of a batch; null if they have none, or several
    label: Mapped[str | None]  # of an upload, as its uploader typed it
    content_hash: Mapped[bytes | None] = mapped_column(LargeBinary)  # SHA-256 of an upload's lines
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)  # of the uploaded file
    raw_bytes: Mapped[int | None] = mapped_column(BigInteger)  # of the re-encoded records
    frame_bytes: Mapped[int | None] = mapped_column(BigInteger)
    raw_purged_at: Mapped[datetime | None]  # the raw blob may be gone from this time on
    report_deleted_at: Mapped[datetime | None]

    # The job protocol: `attempts` counts claims, the token fences off an orphaned job. The columns
    # keep their old names, so that the previous release can run next to this release.
    attempts: Mapped[int] = mapped_column("starts", default=0)
    # Attempts that no longer count: those before a rerun, those requeued by a worker's stop, and
    # those that an outage ended.
    uncounted_attempts: Mapped[int] = mapped_column(
        "starts_before_rerun", default=0, server_default="0"
    )
    # How many attempts in a row ended by an outage, and when the next may begin.
    outages: Mapped[int] = mapped_column(default=0, server_default="0")
    resume_at: Mapped[datetime | None]
    enqueued_at: Mapped[datetime | None]
    lease_token: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    error: Mapped[str | None]  # also of a recalculation that failed: its audit is `done` again
    traceparent: Mapped[str | None]  # the trace of its request, until it ends

    # Totals of the report document; 0 until computed.
    records: Mapped[int] = mapped_column(BigInteger, default=0)
    # Those of `records` that a plan includes; no dollars are of them.
    included_calls: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    valid_pct: Mapped[float | None]
    observed_days: Mapped[int] = mapped_column(default=0)
    total_spend_usd: Mapped[Decimal] = mapped_column(_USD, default=Decimal(0))
    projected_spend_usd: Mapped[Decimal] = mapped_column(_USD, default=Decimal(0))
    projected_savings_usd: Mapped[Decimal] = mapped_column(_USD, default=Decimal(0))
    savings_pct: Mapped[float] = mapped_column(default=0.0)
    equiv_spend: Mapped[bool] = mapped_column(default=False)
    findings_count: Mapped[int] = mapped_column(default=0)
    priced_findings: Mapped[int | None]  # those with savings; null if an earlier release counted
    # Null until computed, and in reports that an earlier release computed.
    projection: Mapped[str | None]
    span_days: Mapped[float | None]
    window_start: Mapped[datetime | None]
    monthly_factor: Mapped[float | None]
    verified_savings_usd: Mapped[Decimal | None] = mapped_column(_USD)
    estimated_savings_usd: Mapped[Decimal | None] = mapped_column(_USD)
    estimated_savings_low_usd: Mapped[Decimal | None] = mapped_column(_USD)
    estimated_savings_high_usd: Mapped[Decimal | None] = mapped_column(_USD)
    conditional_savings_usd: Mapped[Decimal | None] = mapped_column(_USD)
    conditional_savings_low_usd: Mapped[Decimal | None] = mapped_column(_USD)
    conditional_savings_high_usd: Mapped[Decimal | None] = mapped_column(_USD)

    @property
    def rerun_key(self) -> str | None:
        """Return the blob of a rerun: the raw upload or, if it was purged, the frame, if any."""
        return self.blob_key if self.raw_purged_at is None else self.frame_key


class FindingRow(Base):
    """One finding of an audit's current report, for the read API."""

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
    # Null in reports that an earlier release computed.
    impact_low: Mapped[Decimal | None] = mapped_column(_USD)
    impact_high: Mapped[Decimal | None] = mapped_column(_USD)
    first_seen: Mapped[datetime | None]
    last_seen: Mapped[datetime | None]


# The findings with savings, which pages and mails count: those of a report that an earlier release
# computed, by its rows.
PRICED_FINDINGS: Final = func.coalesce(
    Audit.priced_findings,
    select(func.count())
    .where(FindingRow.audit_id == Audit.id, FindingRow.monthly_cost_impact_usd > 0)
    .correlate(Audit)
    .scalar_subquery(),
)


class ReportRow(Base):
    """The report document of an audit, exactly as the detectors wrote it."""

    __tablename__ = "reports"
    __table_args__ = (
        Index("ix_reports_unpacked", "created_at", postgresql_where=text("NOT is_packed")),
    )

    audit_id: Mapped[str] = mapped_column(
        ForeignKey("audits.id", ondelete="CASCADE"), primary_key=True
    )
    document: Mapped[bytes] = mapped_column(PackedBytes)
    is_packed: Mapped[bool] = mapped_column(default=False, server_default="false")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class Cursor(NamedTuple):
    """The audit after which a list continues. New audits don't shift the next page."""

    created_at: datetime
    id: str


def of_source(source: str | None) -> ColumnElement[bool]:
    """Match audits of a source; by default, those of batches and files."""
    return Audit.source == source if source else Audit.source != ACCOUNT


def find_audit(session: Session, account_id: str, audit_id: str) -> Audit | None:
    """Return the audit if it exists and belongs to the account."""
    query = select(Audit).where(Audit.account_id == account_id, Audit.id == audit_id)
    return session.scalars(query).one_or_none()


def find_document(session: Session, account_id: str, audit_id: str) -> tuple[bool, bytes | None]:
    """Return whether the account has the audit, and the audit's report document, if any."""
    mine = (Audit.account_id == account_id, Audit.id == audit_id)
    query = select(Audit.id, ReportRow.document).outerjoin(
        ReportRow, ReportRow.audit_id == Audit.id
    )
    row = session.execute(query.where(*mine)).one_or_none()
    return (False, None) if row is None else (True, row[1])


def list_named_keys(connection: Connection, audit_ids: Sequence[str]) -> set[str]:
    """Return the blob keys that these audits name: frames, and raw uploads not yet purged."""
    query = select(Audit.blob_key, Audit.raw_purged_at, Audit.frame_key)
    rows = connection.execute(query.where(Audit.id.in_(audit_ids))).all()
    frames = {row.frame_key for row in rows if row.frame_key is not None}
    return frames | {row.blob_key for row in rows if row.raw_purged_at is None}
