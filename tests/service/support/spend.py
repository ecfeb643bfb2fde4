"""Spend that tests write straight into its table, as the rows of one call file."""

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from service.models import Base, CallFile, PlanRow, SpendRow
from service.models.base import utc_now

FIRST = date(2026, 3, 1)
LABELS = {"route": "chat", "provider": "openai", "model": "gpt-5.5", "environment": "production"}
COUNTS = {
    "calls": 10,
    "unpriced_calls": 0,
    "prompt_tokens": 1_000,
    "completion_tokens": 100,
    "cached_tokens": 50,
    "cache_write_tokens": 5,
}


def today() -> date:
    """The day in UTC now: a run may begin on the day before."""
    return utc_now().date()


def spend_line(day: date = FIRST, cost: str = "1.5", **more: Any) -> dict[str, Any]:
    """One line of `daily_spend`, at list price unless it says otherwise."""
    dollars = {"cost_usd": Decimal(cost), "list_usd": Decimal(cost)}
    return {"day": day, **LABELS, **COUNTS, **dollars, **more}


def add_spend(session: Session, account_id: str, *lines: dict[str, Any]) -> None:
    """Add a file with these lines."""
    _add(session, account_id, SpendRow, lines)


def add_plan_usage(session: Session, account_id: str, *lines: dict[str, Any]) -> None:
    """Add a file with these lines of calls that a plan includes; their cost is their value."""
    rows = [{**line, "value_usd": line["cost_usd"]} for line in lines]
    for row in rows:
        del row["cost_usd"], row["list_usd"]
    _add(session, account_id, PlanRow, rows)


def _add(session: Session, account_id: str, table: type[Base], lines: Sequence[Any]) -> None:
    days = [line["day"] for line in lines]
    file = CallFile(
        account_id=account_id,
        blob_key="calls/x.parquet",
        level=0,
        first_day=min(days),
        last_day=max(days),
        calls=sum(line["calls"] for line in lines),
        bytes=1,
    )
    session.add(file)
    session.flush()
    rows = [{"account_id": account_id, "file_id": file.id, **line} for line in lines]
    session.execute(insert(table), rows)
    session.commit()


def add_month(session: Session, account_id: str, last: date, days: int = 30) -> None:
    """Add days up to the last one, each with two routes, of which one has two models."""
    lines = []
    for back in range(days):
        day = last - timedelta(days=back)
        lines += [
            spend_line(day, "2.25"),
            spend_line(day, "0.50", model="gpt-5.5-mini"),
            spend_line(day, "7", route="search", provider="anthropic", model="claude-sonnet-4-5"),
        ]
    add_spend(session, account_id, *lines)
