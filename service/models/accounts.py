"""Accounts and their subscriptions."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey
from sqlalchemy.orm import Mapped, mapped_column, relationship

from service.models.base import Base, new_id, utc_now

# Ingest keys that each plan allows.
KEY_LIMITS = {"free": 0, "pro": 5, "team": 50}
# past_due still counts: the payment provider is retrying.
ACTIVE_STATUSES = frozenset({"active", "trialing", "past_due"})


class Account(Base):
    __tablename__ = "accounts"

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    email: Mapped[str] = mapped_column(unique=True)  # stored in lower case
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    subscription: Mapped["Subscription | None"] = relationship(
        back_populates="account", lazy="joined", cascade="all, delete-orphan"
    )

    @property
    def plan(self) -> str:
        """The plan paid for; `free` without a subscription that is active."""
        return self.subscription.plan if self.has_active_subscription else "free"  # type: ignore[union-attr]

    @property
    def has_active_subscription(self) -> bool:
        return self.subscription is not None and self.subscription.status in ACTIVE_STATUSES


class Subscription(Base):
    __tablename__ = "subscriptions"
    __table_args__ = (CheckConstraint("plan IN ('pro', 'team')", name="plan"),)

    account_id: Mapped[str] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True
    )
    plan: Mapped[str]
    status: Mapped[str]
    provider: Mapped[str]
    reference: Mapped[str | None]
    event_at: Mapped[datetime] = mapped_column(default=utc_now)  # the provider's time decides
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    account: Mapped[Account] = relationship(back_populates="subscription")
