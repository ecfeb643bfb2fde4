"""What administrators did. Triggers keep the table append-only."""

from datetime import datetime
from typing import Any

from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import BigInteger

from service.models.base import Base, utc_now


class AdminAct(Base):
    __tablename__ = "admin_acts"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    act: Mapped[str]
    target: Mapped[str]  # the id or address that was acted on
    details: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    via: Mapped[str]  # web or command
    request_id: Mapped[str | None]
    acted_at: Mapped[datetime] = mapped_column(default=utc_now, index=True)
