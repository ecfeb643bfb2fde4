"""The plans that an account pays for, and what they cost on some days."""

from calendar import monthrange
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import CheckConstraint, Numeric, delete, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, Executor, Owned
from service.models.identity.accounts import Account

MAX_PLANS: Final = 50  # per account


class Plan(Owned, Base):
    """A plan that is paid per month and seat, from a day until another, which is included."""

    __tablename__ = "plans"
    __table_args__ = (CheckConstraint("price_usd >= 0 AND seats > 0", name="amounts"),)

    name: Mapped[str]
    provider: Mapped[str]  # of the calls that it includes
    price_usd: Mapped[Decimal] = mapped_column(Numeric(14, 2))  # per month and seat
    seats: Mapped[int]
    first_day: Mapped[date]
    last_day: Mapped[date | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class PlanLimitError(Exception):
    """The account has as many plans as it may have."""


def add_plan(session: Session, plan: Plan) -> None:
    # The lock makes the look and the insert one step.
    session.execute(select(Account.id).where(Account.id == plan.account_id).with_for_update())
    if len(list_plans(session, plan.account_id)) >= MAX_PLANS:
        raise PlanLimitError
    session.add(plan)
    session.flush()


def remove_plan(session: Session, account_id: str, plan_id: str) -> bool:
    """Remove a plan; return False if the account has no such plan."""
    own = (Plan.id == plan_id, Plan.account_id == account_id)
    return session.scalar(delete(Plan).where(*own).returning(Plan.id)) is not None


def list_plans(session: Executor, account_id: str) -> Sequence[Any]:
    query = select(Plan.__table__).where(Plan.account_id == account_id)
    return session.execute(query.order_by(Plan.provider, Plan.first_day, Plan.id)).all()


def cost_of(plan: Plan, days: tuple[date, date]) -> Decimal:
    """Return what a plan costs on some days: of each month, the share of its days."""
    first, last = max(days[0], plan.first_day), min(days[1], plan.last_day or days[1])
    cost = Decimal(0)
    while first <= last:
        length = monthrange(first.year, first.month)[1]
        end = min(last, first.replace(day=length))
        cost += plan.price_usd * plan.seats * ((end - first).days + 1) / length
        first = end + timedelta(days=1)
    return cost
