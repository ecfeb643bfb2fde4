"""When an account's calls came and how long they took, by route, provider and model.

`daily_spend` has no hours and no latencies, and both for each of its rows would multiply it. So
each audit of the account over 30 days replaces this table's rows of the account: at most 2,000,
each with 24 counts and the counts of some hundred steps of latency, which pages add up.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    delete,
    insert,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, Session, mapped_column

from detectors.contract import Traffic, TrafficWindow
from service.models.base import Base, IndexedOwner


class TrafficRow(Base):
    """The calls of one route, provider and model in the window of the account's latest audit."""

    __tablename__ = "account_traffic"

    # Labels are too long for a key of their own.
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    account_id: Mapped[IndexedOwner]
    route: Mapped[str]
    provider: Mapped[str]
    model: Mapped[str]
    calls: Mapped[int] = mapped_column(BigInteger)
    hours: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    latencies: Mapped[dict[str, int]] = mapped_column(JSONB)  # calls by step
    # Of all calls in the window.
    first_call: Mapped[datetime]
    last_call: Mapped[datetime]


def replace_traffic(connection: Connection, account_id: str, window: TrafficWindow | None) -> None:
    """Replace the account's traffic by that of a newer window."""
    connection.execute(delete(TrafficRow).where(TrafficRow.account_id == account_id))
    if window is None or not window.traffic:
        return
    own = {
        "account_id": account_id,
        "first_call": window.first_call,
        "last_call": window.last_call,
    }
    rows = [
        {
            **own,
            "route": each.route,
            "provider": each.provider,
            "model": each.model,
            "calls": each.calls,
            "hours": list(each.hours),
            "latencies": {str(step): calls for step, calls in each.latencies.items()},
        }
        for each in window.traffic
    ]
    connection.execute(insert(TrafficRow), rows)


def find_traffic(
    session: Session, account_id: str, only: Mapping[str, str]
) -> TrafficWindow | None:
    """Return the traffic of a route or a model, most calls first, or None without any.

    `only` has values of `route`, `provider` and `model`.
    """
    matches: list[Any] = [getattr(TrafficRow, name) == value for name, value in only.items()]
    query = select(TrafficRow).where(TrafficRow.account_id == account_id, *matches)
    rows = session.scalars(query.order_by(TrafficRow.calls.desc(), TrafficRow.id)).all()
    if not rows:
        return None
    return TrafficWindow(
        first_call=rows[0].first_call,
        last_call=rows[0].last_call,
        traffic=[
            Traffic(
                route=row.route,
                provider=row.provider,
                model=row.model,
                calls=row.calls,
                hours=row.hours,
                latencies={int(step): calls for step, calls in row.latencies.items()},
            )
            for row in rows
        ],
    )
