"""Payments, payment events, customers and audit credits."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    ForeignKey,
    Index,
    Numeric,
    UniqueConstraint,
    exists,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.types import BigInteger

from service.models.base import Base, Owned, new_id, utc_now
from service.models.identity.accounts import Account, Subscription

STRIPE, PADDLE = PROVIDERS = ("stripe", "paddle")  # the payment providers that send events
CREDIT, SUBSCRIPTION = PAYMENT_KINDS = ("credit", "subscription")

# An arbitrary number, the same in every process.
_PAYMENTS_LOCK: Final = 6_021_447_118_305


class Customer(Base):
    """A payment provider's customer, with the email address from its events.

    It has no account: anyone can type any address at checkout, and the payment is filed under that
    address's customer, so a customer doesn't identify the payer.
    """

    __tablename__ = "customers"

    provider: Mapped[str] = mapped_column(primary_key=True)
    reference: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str | None] = mapped_column(index=True)  # in lower case
    email_at: Mapped[datetime | None]  # the provider's time of the event with the address
    forgotten_at: Mapped[datetime | None]  # when an account with its address was deleted


class Payment(Base):
    """One payment at one payment provider. It has no account until its payer signs in."""

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
    # Unknown while only a refund was received.
    kind: Mapped[str | None]
    plan: Mapped[str | None]
    amount: Mapped[Decimal | None] = mapped_column(Numeric(20, 4))  # in whole currency units
    currency: Mapped[str | None]
    quantity: Mapped[int] = mapped_column(default=1, server_default="1")  # of audits
    # Payment and refund events may arrive in any order, so each has its own time.
    paid_at: Mapped[datetime | None]
    refunded_at: Mapped[datetime | None]
    disputed_at: Mapped[datetime | None]
    dispute_won_at: Mapped[datetime | None]
    # When its account was deleted; from then on it has no address and buys nothing.
    closed_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    @property
    def is_disputed(self) -> bool:
        """Whether a dispute is open or lost."""
        return self.disputed_at is not None and (
            self.dispute_won_at is None or self.dispute_won_at < self.disputed_at
        )

    @property
    def is_withdrawn(self) -> bool:
        """Whether the payer has the money back, or may get it: the payment buys nothing."""
        return self.refunded_at is not None or self.is_disputed


class PaymentEvent(Base):
    """A signed payment provider event. Triggers keep the table append-only."""

    __tablename__ = "payment_events"
    __table_args__ = (UniqueConstraint("provider", "event_id"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    provider: Mapped[str]
    event_id: Mapped[str]
    type: Mapped[str]
    occurred_at: Mapped[datetime]
    received_at: Mapped[datetime] = mapped_column(default=utc_now)
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)


class Credit(Owned, Base):
    """The right to one audit. It is free while it has no audit and isn't revoked."""

    __tablename__ = "credits"
    __table_args__ = (
        UniqueConstraint("payment_id", "position"),
        Index(
            "ix_credits_free",
            "account_id",
            "granted_at",
            postgresql_where=text("audit_id IS NULL AND revoked_at IS NULL"),
        ),
    )

    payment_id: Mapped[str | None] = mapped_column(ForeignKey("payments.id", ondelete="SET NULL"))
    # Its number among the credits of its payment.
    position: Mapped[int] = mapped_column(default=1, server_default="1")
    audit_id: Mapped[str | None] = mapped_column(
        ForeignKey("audits.id", ondelete="CASCADE"), unique=True
    )
    granted_at: Mapped[datetime] = mapped_column(default=utc_now)
    claimed_at: Mapped[datetime | None]
    returned_at: Mapped[datetime | None]  # by a failed audit
    revoked_at: Mapped[datetime | None]  # by a refund or a dispute


def lock_payments(session: Session) -> None:
    """Let only one transaction at a time read and change payments and their owners.

    Without the lock, two related events at the same time could miss each other, and so could a
    payment and its payer's first sign-in. Events are rare and their transactions short.
    """
    session.execute(select(func.pg_advisory_xact_lock(_PAYMENTS_LOCK)))


def add_event(session: Session, event: PaymentEvent) -> bool:
    """Store the event; return False if it is already stored.

    If another transaction is storing the same event, wait: if it commits, this one is a duplicate;
    if it rolls back, this one stores the event.
    """
    columns = ("provider", "event_id", "type", "occurred_at", "payload")
    row = {name: getattr(event, name) for name in columns}
    once = insert(PaymentEvent).values(row).on_conflict_do_nothing()
    return session.scalar(once.returning(PaymentEvent.id)) is not None


def find_payment(session: Session, provider: str, reference: str) -> Payment | None:
    named = (Payment.provider == provider, Payment.reference == reference)
    return session.scalars(select(Payment).where(*named)).one_or_none()


def list_payments(session: Session, account_id: str, limit: int) -> Sequence[Payment]:
    """Return the account's payments, newest first."""
    query = select(Payment).where(Payment.account_id == account_id)
    latest = (func.coalesce(Payment.paid_at, Payment.created_at).desc(), Payment.id)
    return session.scalars(query.order_by(*latest).limit(limit)).all()


def get_or_add_payment(session: Session, provider: str, reference: str) -> Payment:
    """Return the payment's row, created if needed. Requires the payments lock."""
    payment = find_payment(session, provider, reference)
    if payment is None:
        payment = Payment(provider=provider, reference=reference)
        session.add(payment)
        session.flush()
    return payment


def get_or_add_customer(session: Session, provider: str, reference: str) -> Customer:
    """Return the customer's row, created if needed. Requires the payments lock."""
    customer = session.get(Customer, (provider, reference))
    if customer is None:
        customer = Customer(provider=provider, reference=reference)
        session.add(customer)
    return customer


def list_waiting_payments(session: Session, account: Account) -> Sequence[Payment]:
    """Return unassigned payments with this account's address, or of a customer with it."""
    paid_by_account = or_(Payment.email == account.email, _is_customer_of(account, Payment))
    unassigned = (Payment.account_id.is_(None), Payment.closed_at.is_(None))
    query = select(Payment).where(*unassigned, paid_by_account)
    return session.scalars(query.order_by(Payment.id)).all()


def list_waiting_subscriptions(session: Session, account: Account) -> Sequence[Subscription]:
    """Return unassigned subscriptions bought by this account or by a customer with its address."""
    bought = exists().where(
        Payment.provider == Subscription.provider,
        Payment.reference == Subscription.reference,
        Payment.kind == SUBSCRIPTION,
        Payment.account_id == account.id,
    )
    query = select(Subscription).where(
        Subscription.account_id.is_(None), or_(bought, _is_customer_of(account, Subscription))
    )
    return session.scalars(query.order_by(Subscription.id)).all()


def may_know_address(session: Session, customer: Customer, email: str) -> bool:
    """Check whether a customer's address may be stored.

    After its account was deleted, the payment provider may still send it: then only for a new
    account with this address, or for a new payment that waits for its payer to sign in.
    """
    if customer.forgotten_at is None:
        return True
    bought = exists().where(
        Payment.provider == customer.provider,
        Payment.customer_reference == customer.reference,
        Payment.account_id.is_(None),
        Payment.closed_at.is_(None),
    )
    return bool(session.scalar(select(bought | exists().where(Account.email == email))))


def _is_customer_of(
    account: Account, table: type[Payment] | type[Subscription]
) -> ColumnElement[bool]:
    return exists().where(
        Customer.provider == table.provider,
        Customer.reference == table.customer_reference,
        Customer.email == account.email,
    )
