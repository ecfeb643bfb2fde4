"""How much of a plan's windows is used, as agents report it: the highest share of each window."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from detectors.contract.windows import to_full_hours
from service.models.base import Base, Executor, OwnerKey
from service.models.calls.account_days import IN_UTC, AccountDays

MAX_LIMITS: Final = 20_000  # windows of an account; five-hour ones of ten people for a year
MOST_PEAKS: Final = 50
_DAY: Final = timedelta(days=1)


class PlanLimit(Base):
    """A window of a plan of one tool in one environment."""

    __tablename__ = "plan_limits"

    account_id: Mapped[OwnerKey]
    provider: Mapped[str] = mapped_column(primary_key=True)
    environment: Mapped[str] = mapped_column(primary_key=True)
    window_minutes: Mapped[int] = mapped_column(primary_key=True)
    resets_at: Mapped[datetime] = mapped_column(primary_key=True)
    used_percent: Mapped[float]


class Peak(NamedTuple):
    """The fullest window of one length, of one tool in one environment."""

    provider: str
    environment: str
    window_minutes: int
    used_percent: float
    resets_at: datetime
    windows: int


def store_limits(session: Session, account_id: str, limits: Iterable[Mapping[str, Any]]) -> None:
    """Keep the highest share of each window, and the newest windows of the account."""
    names = ("provider", "environment", "window_minutes", "resets_at")
    highest: dict[tuple[Any, ...], float] = {}
    for limit in limits:
        limit = {**limit, "window_minutes": to_full_hours(limit["window_minutes"])}
        key = tuple(limit[name] for name in names)
        highest[key] = max(limit["used_percent"], highest.get(key, 0.0))
    if not highest:
        return
    # In one order, so that two requests at once don't wait for each other.
    rows = [
        {"account_id": account_id, "used_percent": used, **dict(zip(names, key, strict=True))}
        for key, used in sorted(highest.items())
    ]
    query = insert(PlanLimit).values(rows)
    higher = func.greatest(PlanLimit.used_percent, query.excluded.used_percent)
    keys = ("account_id", *names)
    session.execute(query.on_conflict_do_update(index_elements=keys, set_={"used_percent": higher}))
    own = PlanLimit.account_id == account_id
    newest = select(PlanLimit.resets_at).where(own).order_by(PlanLimit.resets_at.desc())
    oldest_kept = session.scalar(newest.offset(MAX_LIMITS).limit(1))
    if oldest_kept is not None:
        session.execute(delete(PlanLimit).where(own, PlanLimit.resets_at <= oldest_kept))


def list_peaks(
    session: Executor, account_id: str, days: tuple[date, date], of: AccountDays = IN_UTC
) -> Sequence[Peak]:
    """Return the fullest of the windows that end on these days or last beyond them."""
    begin, until = of.begin(days[0]), of.begin(days[1] + _DAY)
    window = func.make_interval(0, 0, 0, 0, 0, PlanLimit.window_minutes)
    groups = (PlanLimit.provider, PlanLimit.environment, PlanLimit.window_minutes)
    query = (
        select(
            *groups,
            PlanLimit.used_percent,
            PlanLimit.resets_at,
            func.count().over(partition_by=groups),
        )
        .where(PlanLimit.account_id == account_id)
        .where(PlanLimit.resets_at > begin, PlanLimit.resets_at - window < until)
        .ext(distinct_on(*groups))
        .order_by(*groups, PlanLimit.used_percent.desc(), PlanLimit.resets_at.desc())
        .limit(MOST_PEAKS)
    )
    return [Peak(*row) for row in session.execute(query)]
