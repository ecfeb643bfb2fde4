"""Monthly budgets of an account or of one route, and the notices that they have caused."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Numeric,
    delete,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, Executor, Owned
from service.models.identity.accounts import Account

MAX_BUDGETS: Final = 50  # per account
# The percentages of a budget that are worth a notice, and a forecast above it.
HALF, MOST, ALL, FORECAST = THRESHOLDS = ("50", "80", "100", "forecast")

# Skip older events: the account had switched the mails off, or nothing was running.
LATEST: Final = timedelta(days=3)

_AMOUNT: Final = Numeric(14, 2)
_USD: Final = Numeric(30, 9)


class Budget(Owned, Base):
    """The dollars that an account, or one of its routes, may cost per month, by UTC."""

    __tablename__ = "budgets"
    __table_args__ = (
        CheckConstraint("amount_usd > 0", name="amount_usd"),
        Index("uq_budgets_route", "account_id", "route", unique=True),
        Index(
            "uq_budgets_account", "account_id", unique=True, postgresql_where=text("route IS NULL")
        ),
    )

    route: Mapped[str | None]  # None for the whole account
    amount_usd: Mapped[Decimal] = mapped_column(_AMOUNT)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class BudgetNotice(Base):
    """A notice that was posted, once per budget, month and threshold.

    A budget whose amount was changed can reach its thresholds again.
    """

    __tablename__ = "budget_notices"
    __table_args__ = (
        CheckConstraint(f"threshold IN {THRESHOLDS}", name="threshold"),
        Index(
            "ix_budget_notices_unmailed", "budget_id", postgresql_where=text("mailed_at IS NULL")
        ),
    )

    budget_id: Mapped[str] = mapped_column(
        ForeignKey("budgets.id", ondelete="CASCADE"), primary_key=True
    )
    month: Mapped[date] = mapped_column(primary_key=True)  # its first day
    threshold: Mapped[str] = mapped_column(primary_key=True)
    amount_usd: Mapped[Decimal] = mapped_column(_AMOUNT, primary_key=True)
    spend_usd: Mapped[Decimal] = mapped_column(_USD)
    forecast_usd: Mapped[Decimal | None] = mapped_column(_USD)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    mailed_at: Mapped[datetime | None]


class BudgetLimitError(Exception):
    """The account has as many budgets as it may have."""


def save_budget(session: Session, account_id: str, route: str | None, amount: Decimal) -> None:
    """Add a budget, or change the amount of the one for this route or the whole account."""
    # The lock makes the look and the insert one step.
    session.execute(select(Account.id).where(Account.id == account_id).with_for_update())
    budgets = list_budgets(session, account_id)
    known = next((each for each in budgets if each.route == route), None)
    if known is not None:
        known.amount_usd = amount
    elif len(budgets) >= MAX_BUDGETS:
        raise BudgetLimitError
    else:
        session.add(Budget(account_id=account_id, route=route, amount_usd=amount))
    session.flush()


def change_budget(session: Session, account_id: str, budget_id: str, amount: Decimal) -> bool:
    """Change the amount; return False if the account has no such budget."""
    own = (Budget.id == budget_id, Budget.account_id == account_id)
    changed = update(Budget).where(*own).values(amount_usd=amount).returning(Budget.id)
    return session.scalar(changed) is not None


def remove_budget(session: Session, account_id: str, budget_id: str) -> bool:
    """Remove a budget; return False if the account has no such budget."""
    own = (Budget.id == budget_id, Budget.account_id == account_id)
    return session.scalar(delete(Budget).where(*own).returning(Budget.id)) is not None


def list_budgets(session: Executor, account_id: str) -> Sequence[Any]:
    """Return the account's budgets: its own first, then those of routes by name."""
    query = select(Budget).where(Budget.account_id == account_id)
    ordered = query.order_by(Budget.route.nulls_first())
    if isinstance(session, Session):
        return session.scalars(ordered).all()
    return session.execute(ordered).all()


def find_amount(session: Executor, account_id: str, route: str | None) -> Decimal | None:
    """Return the monthly budget of a route or, for None, of the account."""
    own = (Budget.account_id == account_id, Budget.route.is_not_distinct_from(route))
    return session.scalar(select(Budget.amount_usd).where(*own))


def add_budget_notice(connection: Connection, notice: Mapping[str, Any]) -> bool:
    """Add a notice; return False if it was added before."""
    once = insert(BudgetNotice).values(notice).on_conflict_do_nothing()
    return connection.execute(once).rowcount > 0


def are_unmailed(account_id: str) -> tuple[ColumnElement[bool], ...]:
    """Match the notices of an account's budgets, and these, that are news to it by mail."""
    own = (BudgetNotice.budget_id == Budget.id, Budget.account_id == account_id)
    new = (BudgetNotice.mailed_at.is_(None), BudgetNotice.created_at > func.now() - LATEST)
    return (*own, *new)


def drop_unmailed(connection: Connection, account_id: str, month: date) -> None:
    """Forget what no mail has said yet of an account's budgets in the given month or later.

    Checks of these months say it again. Nothing checks an earlier one.
    """
    is_checked = BudgetNotice.month >= month
    connection.execute(delete(BudgetNotice).where(*are_unmailed(account_id), is_checked))
