"""The log of admin actions. Triggers keep the table append-only."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.types import BigInteger

from service.models.base import Base, utc_now

PURGE, RERUN, MARK_PAID, EXPORT, READ_REPORT, SIGN_OUT, RESET_PASSKEYS = ADMIN_ACTIONS = (
    "purge",
    "rerun",
    "mark-paid",
    "early-access-export",
    "read-report",
    "sign-out",
    "reset-passkeys",
)


class AdminAction(Base):
    __tablename__ = "admin_acts"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    act: Mapped[str]
    target: Mapped[str]  # the ID or address that the action changed
    details: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    via: Mapped[str]  # web or command
    request_id: Mapped[str | None]
    acted_at: Mapped[datetime] = mapped_column(default=utc_now, index=True)


@dataclass(frozen=True)
class Via:
    """How an administrator acted: on the web (with the request ID) or by a command.

    The actor is the account whose passkey opened /admin, if one was needed.
    """

    name: str
    request_id: str | None = None
    actor: str | None = None


COMMAND: Final = Via("command")


def log_admin_action(
    session: Session, via: Via, act: str, target: str, details: Mapping[str, Any]
) -> None:
    """Log the action in the transaction that performs it; the caller commits both or neither."""
    actor = {"by": via.actor} if via.actor else {}
    session.add(
        AdminAction(
            act=act,
            target=target,
            details={**details, **actor},
            via=via.name,
            request_id=via.request_id,
        )
    )
