"""Security events of an account: sign-ins, new and revoked secrets, refusals.

An event never holds a secret, an address or a label; a secret is named by its shown prefix.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import BigInteger, Identity, Index, exists, or_, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.types import LargeBinary

from service.models.base import Base, Owner, utc_now
from service.models.identity.sign_in import WebSession

SHOWN_EVENTS: Final = 200


class EventKind(StrEnum):
    """What happened. The values are labels of a metric and of log lines."""

    SIGN_IN = "sign_in"
    SIGN_IN_REFUSED = "sign_in_refused"
    SIGN_OUT = "sign_out"
    SESSION_ENDED = "session_ended"
    CONFIRMATION_REQUIRED = "confirmation_required"
    CROSS_SITE_REFUSED = "cross_site_refused"
    CREDENTIAL_REFUSED = "credential_refused"
    PASSKEY_ADDED = "passkey_added"
    PASSKEY_REMOVED = "passkey_removed"
    PASSKEY_REFUSED = "passkey_refused"
    RECOVERY_CODES_CREATED = "recovery_codes_created"
    RECOVERY_CODE_USED = "recovery_code_used"
    KEY_CREATED = "key_created"
    KEY_ROTATED = "key_rotated"
    KEY_REVOKED = "key_revoked"
    TOKEN_CREATED = "token_created"  # noqa: S105 - the name of an event
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 - the name of an event
    APPLICATION_CREATED = "application_created"
    APPLICATION_CHANGED = "application_changed"
    APPLICATION_SECRET_ROTATED = "application_secret_rotated"  # noqa: S105 - the name of an event
    APPLICATION_DELETED = "application_deleted"
    ACCESS_GRANTED = "access_granted"
    ACCESS_REVOKED = "access_revoked"
    TARGET_ADDED = "target_added"
    TARGET_ENABLED = "target_enabled"
    TARGET_REMOVED = "target_removed"
    CONNECTION_ADDED = "connection_added"
    CONNECTION_KEY_REPLACED = "connection_key_replaced"
    CONNECTION_REMOVED = "connection_removed"
    LINK_CREATED = "link_created"
    LINK_REVOKED = "link_revoked"
    LINK_RENEWED = "link_renewed"
    FUTURE_CALLS_DELETED = "future_calls_deleted"
    ADMIN_SIGNED_OUT = "admin_signed_out"
    ADMIN_RESET_PASSKEYS = "admin_reset_passkeys"
    ACCOUNT_DELETED = "account_deleted"


class SecurityEvent(Base):
    __tablename__ = "security_events"
    __table_args__ = (
        Index("ix_security_events_account", "account_id", "id"),
        Index("ix_security_events_occurred_at", "occurred_at"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=False), primary_key=True)
    account_id: Mapped[Owner]
    kind: Mapped[str]
    occurred_at: Mapped[datetime] = mapped_column(default=utc_now)
    browser: Mapped[str] = mapped_column(default="", server_default="")  # a name we know, or ""
    browser_hash: Mapped[bytes | None] = mapped_column(LargeBinary)  # of a sign-in's browser
    details: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict, server_default="{}")


def add_security_event(
    session: Session,
    account_id: str,
    kind: EventKind,
    details: Mapping[str, Any],
    *,
    browser: str = "",
    browser_hash: bytes | None = None,
) -> None:
    event = SecurityEvent(account_id=account_id, kind=kind, details=dict(details))
    event.browser, event.browser_hash = browser, browser_hash
    session.add(event)


def list_security_events(session: Session, account_id: str) -> Sequence[SecurityEvent]:
    """Return the account's latest events, newest first."""
    query = select(SecurityEvent).where(SecurityEvent.account_id == account_id)
    return session.scalars(query.order_by(SecurityEvent.id.desc()).limit(SHOWN_EVENTS)).all()


def is_new_browser(session: Session, account_id: str, browser_hash: bytes) -> bool:
    """Check whether an account that was signed in to before never was from this browser."""
    signed_in = (SecurityEvent.account_id == account_id, SecurityEvent.kind == EventKind.SIGN_IN)
    was_used = or_(exists().where(*signed_in), exists().where(WebSession.account_id == account_id))
    is_known = exists().where(*signed_in, SecurityEvent.browser_hash == browser_hash)
    return bool(session.scalar(select(was_used & ~is_known)))
