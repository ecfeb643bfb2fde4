"""Accounts and the subscriptions that pay for them."""

from datetime import datetime

from sqlalchemy import CheckConstraint, Exists, ForeignKey, UniqueConstraint, exists, select
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, mapped_column, relationship

from service.models.base import Base, new_id, utc_now

# Ingest keys that each plan allows, from the least to the most.
KEY_LIMITS = {"free": 0, "pro": 5, "team": 50}
# past_due still counts: the payment provider is retrying.
ACTIVE_STATUSES = frozenset({"active", "trialing", "past_due"})
COMP = "comp"  # the provider of what is given away
# How an account hears of the reports of its ingest batches.
EACH, DAILY, NEVER = REPORT_MAILS = ("each", "daily", "none")


class Account(Base):
    __tablename__ = "accounts"
    __table_args__ = (CheckConstraint(f"report_mails IN {REPORT_MAILS}", name="report_mails"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    email: Mapped[str] = mapped_column(unique=True)  # stored in lower case
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    report_mails: Mapped[str] = mapped_column(default=EACH, server_default=EACH)
    reports_told_until: Mapped[datetime | None]  # from when on the next digest tells

    subscriptions: Mapped[list["Subscription"]] = relationship(
        back_populates="account", lazy="selectin", cascade="all, delete-orphan"
    )

    @property
    def plan(self) -> str:
        """The best plan paid for; `free` without a subscription that is active."""
        plans = {"free", *(one.plan for one in self.subscriptions if one.plan and one.is_active)}
        return max(plans, key=list(KEY_LIMITS).index)

    @property
    def has_active_subscription(self) -> bool:
        return any(one.is_active for one in self.subscriptions)


class Subscription(Base):
    """One subscription at one provider, as its latest event left it.

    It has no account while nobody has signed in with the address that pays.
    """

    __tablename__ = "subscriptions"
    __table_args__ = (
        CheckConstraint("plan IN ('pro', 'team')", name="plan"),
        UniqueConstraint("provider", "reference"),
    )

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[str | None] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), index=True
    )
    provider: Mapped[str]
    reference: Mapped[str] = mapped_column(default=new_id)  # the provider's own id
    customer_reference: Mapped[str | None] = mapped_column(index=True)
    plan: Mapped[str | None]  # none for a price that is not among the settings
    status: Mapped[str]
    # The provider's time of the latest event decides, then these two, never the order of arrival.
    event_at: Mapped[datetime] = mapped_column(default=utc_now)
    event_rank: Mapped[int] = mapped_column(default=0, server_default="0")
    event_id: Mapped[str] = mapped_column(default="", server_default="")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    account: Mapped[Account | None] = relationship(back_populates="subscriptions")

    @property
    def is_active(self) -> bool:
        return self.plan is not None and self.status in ACTIVE_STATUSES


def get_account(session: Session, account_id: str) -> Account:
    """The account of a caller, who has one."""
    return session.get_one(Account, account_id)


def find_account(session: Session, email: str) -> Account | None:
    return session.scalars(select(Account).where(Account.email == email.lower())).one_or_none()


def find_subscription(session: Session, provider: str, reference: str) -> Subscription | None:
    named = (Subscription.provider == provider, Subscription.reference == reference)
    return session.scalars(select(Subscription).where(*named)).one_or_none()


def has_active_subscription(account_id: InstrumentedAttribute[str]) -> Exists:
    """The condition that the account in this column pays for a plan."""
    return exists().where(
        Subscription.account_id == account_id,
        Subscription.plan.is_not(None),
        Subscription.status.in_(ACTIVE_STATUSES),
    )
