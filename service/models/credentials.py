"""Ingest keys and read tokens: hashes only, the secrets are shown once and never kept."""

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column, relationship
from sqlalchemy.types import LargeBinary, Text

from service.models.accounts import Account
from service.models.base import Base, new_id, utc_now


class IngestKey(Base):
    """Write-only. Revoking deletes the row."""

    __tablename__ = "ingest_keys"

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[str] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), index=True
    )
    prefix: Mapped[str]  # the first characters, to tell keys apart
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    label: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    last_used_at: Mapped[datetime | None]

    account: Mapped[Account] = relationship(lazy="joined")


class ReadToken(Base):
    """Read-only, with one or both of `read:audits` and `read:findings`."""

    __tablename__ = "read_tokens"

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[str] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), index=True
    )
    prefix: Mapped[str]
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    label: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    last_used_at: Mapped[datetime | None]

    account: Mapped[Account] = relationship(lazy="joined")
