"""Accounts and their subscriptions."""

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Exists,
    ForeignKey,
    Index,
    ScalarSelect,
    UniqueConstraint,
    case,
    exists,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, mapped_column, relationship

from service.models.base import Base, new_id, utc_now

# The number of ingest keys in each plan, from the smallest plan to the largest.
KEY_LIMITS = {"free": 0, "pro": 5, "team": 50}
FREE = "free"  # of accounts without a subscription
# past_due still counts: the payment provider is retrying.
ACTIVE_STATUSES = frozenset({"active", "trialing", "past_due"})
COMP = "comp"  # the payment provider of gifts
# The account of `tallystick up --seed`, whose calls are made up.
SAMPLE_EMAIL = "seed@tallystick.example"
# The emails that an account gets: about reports of its ingest batches, or about its weeks.
EACH, DAILY, WEEKLY, NEVER = REPORT_MAILS = ("each", "daily", "weekly", "none")


class Account(Base):
    __tablename__ = "accounts"
    __table_args__ = (
        CheckConstraint(f"report_mails IN {REPORT_MAILS}", name="report_mails"),
        Index("ix_accounts_zone", "time_zone", postgresql_where=text("time_zone IS NOT NULL")),
    )

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    email: Mapped[str] = mapped_column(unique=True)  # stored in lower case
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    report_mails: Mapped[str] = mapped_column(default=WEEKLY, server_default=WEEKLY)
    # The next digest starts here. The column keeps its old name for the previous release.
    digest_sent_until: Mapped[datetime | None] = mapped_column("reports_told_until")

    spend_mails: Mapped[bool] = mapped_column(default=True, server_default=true())
    # The attribute of OpenTelemetry spans that is the tag of a call; null for `service.name`.
    tag_attribute: Mapped[str | None]
    name: Mapped[str] = mapped_column(default="", server_default="")  # on reports
    time_zone: Mapped[str | None]  # of times and days on pages and in emails; null for UTC

    subscriptions: Mapped[list["Subscription"]] = relationship(
        back_populates="account", lazy="selectin", cascade="all, delete-orphan"
    )

    @property
    def plan(self) -> str:
        """Return the best plan with an active subscription, or else `free`."""
        active = (subscription for subscription in self.subscriptions if subscription.is_active)
        plans = {FREE, *(subscription.plan for subscription in active if subscription.plan)}
        return max(plans, key=list(KEY_LIMITS).index)

    @property
    def has_active_subscription(self) -> bool:
        return any(subscription.is_active for subscription in self.subscriptions)


class Subscription(Base):
    """One subscription at one payment provider, in the state of its latest event.

    It has no account until someone signs in with the payer's address.
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
    reference: Mapped[str] = mapped_column(default=new_id)  # the payment provider's ID
    customer_reference: Mapped[str | None] = mapped_column(index=True)
    plan: Mapped[str | None]  # None if the settings don't have its price
    status: Mapped[str]
    # Events are ordered by the provider's time, then by rank and ID, never by arrival.
    event_at: Mapped[datetime] = mapped_column(default=utc_now)
    event_rank: Mapped[int] = mapped_column(default=0, server_default="0")
    event_id: Mapped[str] = mapped_column(default="", server_default="")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    account: Mapped[Account | None] = relationship(back_populates="subscriptions")

    @property
    def is_active(self) -> bool:
        return self.plan is not None and self.status in ACTIVE_STATUSES


def get_account(session: Session, account_id: str) -> Account:
    """Return the account of an authenticated caller."""
    return session.get_one(Account, account_id)


def find_tag_attribute(session: Session, account_id: str) -> str | None:
    """Return the attribute that the account chose as the tag of calls in spans."""
    return session.scalar(select(Account.tag_attribute).where(Account.id == account_id))


def find_account(session: Session, email: str) -> Account | None:
    return session.scalars(select(Account).where(Account.email == email.lower())).one_or_none()


def find_subscription(session: Session, provider: str, reference: str) -> Subscription | None:
    named = (Subscription.provider == provider, Subscription.reference == reference)
    return session.scalars(select(Subscription).where(*named)).one_or_none()


def has_active_subscription(account_id: InstrumentedAttribute[str]) -> Exists:
    """Return the SQL condition that the account in this column has an active subscription."""
    return exists().where(
        Subscription.account_id == account_id,
        Subscription.plan.is_not(None),
        Subscription.status.in_(ACTIVE_STATUSES),
    )


def best_plan(account_id: ColumnElement[str]) -> ScalarSelect[str | None]:
    """Return the SQL of the best plan with an active subscription, which is null without one."""
    own = Subscription.__table__.c
    ranks = {plan: rank for rank, plan in enumerate(KEY_LIMITS)}
    # Each batch asks for it, and SQLAlchemy writes `IN` out at each execution.
    is_active = or_(*(own.status == status for status in sorted(ACTIVE_STATUSES)))
    active = (own.account_id == account_id, or_(*(own.plan == plan for plan in ranks)), is_active)
    best_first = case(ranks, value=own.plan).desc()
    return select(own.plan).where(*active).order_by(best_first).limit(1).scalar_subquery()
