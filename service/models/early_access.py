"""Addresses that asked for early access."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from service.models.base import Base, utc_now


class EarlyAccess(Base):
    __tablename__ = "early_access"

    email: Mapped[str] = mapped_column(primary_key=True)  # in lower case
    asked_at: Mapped[datetime] = mapped_column(default=utc_now, index=True)
