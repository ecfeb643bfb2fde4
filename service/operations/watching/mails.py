"""One mail a day at most, with everything about spend that no mail has had yet.

It names no route or model of a batch, because a leaked ingest key could write labels. Routes with a
budget were named by a person.
"""

from collections import Counter
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, Row

from service.models.mail.outbox import post_mail
from service.models.watching.news import SPEND_NOTICE, find_recipient, take_budgets, take_days
from service.operations.watching.unusual_days import ACCOUNT


def post_spend_mail(connection: Connection, account_id: str, now: datetime) -> str | None:
    """Post the mail of today if there is news and the account wants it; return its ID."""
    key = f"{SPEND_NOTICE}:{account_id}:{now:%Y-%m-%d}"
    recipient = find_recipient(connection, account_id, key)
    if recipient is None:
        return None
    days, budgets = take_days(connection, account_id), take_budgets(connection, account_id)
    if not days and not budgets:
        return None
    newest: dict[tuple[str, date], Any] = {}  # notices of each budget and month
    for row in sorted(budgets, key=lambda row: (row.created_at, row.threshold != "forecast")):
        newest[(row.budget_id, row.month)] = row
    return post_mail(
        connection,
        kind=SPEND_NOTICE,
        recipient=recipient,
        account_id=account_id,
        parameters={
            "days": [_describe_day(row) for row in days],
            "budgets": [
                {
                    "route": row.route,
                    "month": row.month.isoformat(),
                    "amount_usd": str(row.amount_usd),
                    "spend_usd": str(row.spend_usd),
                    "forecast_usd": None if row.forecast_usd is None else str(row.forecast_usd),
                }
                for row in newest.values()
            ],
        },
        dedupe_key=key,
    )


def _describe_day(row: Row[Any]) -> dict[str, Any]:
    account = next((each for each in row.series if each["scope"] == ACCOUNT), None)
    counts = Counter(each["scope"] for each in row.series)
    return {
        "day": row.day.isoformat(),
        "spend_usd": account and account["spend_usd"],
        "expected_usd": account and account["expected_usd"],
        "routes": counts["route"],
        "models": counts["model"],
    }
