"""Payments, the events that told of them, and the audit credits that they bought."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    Index,
    Numeric,
    UniqueConstraint,
    func,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.types import BigInteger

from service.models.base import Base, new_id, utc_now

STRIPE, PADDLE = PROVIDERS = ("stripe", "paddle")  # those that send events
CREDIT, SUBSCRIPTION = PAYMENT_KINDS = ("credit", "subscription")

# Any number will do, as long as it is always the same one.
_PAYMENTS_LOCK: Final = 6_021_447_118_305


class Customer(Base):
    """A provider's customer and its address, as far as events have told.

    No account: a checkout believes whatever address is typed into it and files the payment under
    that address's customer, so one payment of a customer says nothing about the next one's payer.
    """

    __tablename__ = "customers"

    provider: Mapped[str] = mapped_column(primary_key=True)
    reference: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str | None] = mapped_column(index=True)  # in lower case
    email_at: Mapped[datetime | None]  # the provider's time of the event that told the address


class Payment(Base):
    """One payment at one provider. It has no account until its payer has signed in once."""

    __tablename__ = "payments"
    __table_args__ = (
        CheckConstraint(f"kind IN {PAYMENT_KINDS}", name="kind"),
        UniqueConstraint("provider", "reference"),
    )

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[str | None] = mapped_column(
        ForeignKey("accounts.id", ondelete="SET NULL"), index=True
    )
    provider: Mapped[str]
    reference: Mapped[str]
    customer_reference: Mapped[str | None] = mapped_column(index=True)
    email: Mapped[str | None] = mapped_column(index=True)  # in lower case
    # Not known while nothing but a refund has been told.
    kind: Mapped[str | None]
    plan: Mapped[str | None]
    amount: Mapped[Decimal | None] = mapped_column(Numeric(20, 4))  # in whole units of the currency
    currency: Mapped[str | None]
    # Paid and refunded may be told in any order, so each has its own time.
    paid_at: Mapped[datetime | None]
    refunded_at: Mapped[datetime | None]
    # From when on its account is deleted: it keeps no address, and buys nothing for anybody else.
    closed_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class PaymentEvent(Base):
    """An event as its provider signed it. Triggers keep the table append-only."""

    __tablename__ = "payment_events"
    __table_args__ = (UniqueConstraint("provider", "event_id"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    provider: Mapped[str]
    event_id: Mapped[str]
    type: Mapped[str]
    occurred_at: Mapped[datetime]
    received_at: Mapped[datetime] = mapped_column(default=utc_now)
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)


class Credit(Base):
    """The right to one audit. It is free while it names no audit and was not taken back."""

    __tablename__ = "credits"
    __table_args__ = (
        Index(
            "ix_credits_free",
            "account_id",
            "granted_at",
            postgresql_where=text("audit_id IS NULL AND revoked_at IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[str] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), index=True
    )
    payment_id: Mapped[str | None] = mapped_column(
        ForeignKey("payments.id", ondelete="SET NULL"), unique=True
    )
    audit_id: Mapped[str | None] = mapped_column(
        ForeignKey("audits.id", ondelete="CASCADE"), unique=True
    )
    granted_at: Mapped[datetime] = mapped_column(default=utc_now)
    claimed_at: Mapped[datetime | None]
    returned_at: Mapped[datetime | None]  # given back by an audit that failed
    revoked_at: Mapped[datetime | None]  # taken back by a refund


def lock_payments(session: Session) -> None:
    """Let one transaction at a time look at payments and their owners, and change them.

    Two events that belong together would otherwise miss each other when they come at once, and so
    would a payment and its payer's first sign-in. Events are few and their transactions short.
    """
    session.execute(select(func.pg_advisory_xact_lock(_PAYMENTS_LOCK)))


def add_event(session: Session, event: PaymentEvent) -> bool:
    """Keep the event; False for one that is kept already.

    Another transaction with the same event is waited for: its commit makes this one the replay,
    its rollback leaves the event to this one.
    """
    columns = ("provider", "event_id", "type", "occurred_at", "payload")
    row = {name: getattr(event, name) for name in columns}
    once = insert(PaymentEvent).values(row).on_conflict_do_nothing()
    return session.scalar(once.returning(PaymentEvent.id)) is not None


def find_payment(session: Session, provider: str, reference: str) -> Payment | None:
    named = (Payment.provider == provider, Payment.reference == reference)
    return session.scalars(select(Payment).where(*named)).one_or_none()


def list_payments(session: Session, account_id: str, limit: int) -> Sequence[Payment]:
    """The account's latest payments first."""
    query = select(Payment).where(Payment.account_id == account_id)
    latest = (func.coalesce(Payment.paid_at, Payment.created_at).desc(), Payment.id)
    return session.scalars(query.order_by(*latest).limit(limit)).all()


def get_or_add_payment(session: Session, provider: str, reference: str) -> Payment:
    """The payment's row, made where there is none. Only under the payments lock."""
    payment = find_payment(session, provider, reference)
    if payment is None:
        payment = Payment(provider=provider, reference=reference)
        session.add(payment)
        session.flush()
    return payment


def get_or_add_customer(session: Session, provider: str, reference: str) -> Customer:
    """The customer's row, made where there is none. Only under the payments lock."""
    customer = session.get(Customer, (provider, reference))
    if customer is None:
        customer = Customer(provider=provider, reference=reference)
        session.add(customer)
    return customer
