"""One planted month of OpenAI: two projects, of which one sends its calls, and a fee."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from msgspec.structs import replace
from sqlalchemy import insert
from sqlalchemy.orm import Session

from detectors.contract import DailySpend
from service.models import ProviderConnection, ReportedCost, ReportedName, ReportedUsage
from service.models.base import new_id
from service.models.connections.unsent import SOURCE
from service.operations.connections.plan import month_start
from tests.service.support.spend import add_spend, spend_line

MONTH = date(2026, 2, 1)
MODEL = "gpt-4o-2024-08-06"  # $2.50 a million input tokens
EVIL = "<script>alert(1)</script>"


def plant(session: Session, account_id: str, rate: str = "1", *, sends: bool = True) -> str:
    """Add $62.50, $25 and $4 for each day; return the connection's ID."""
    connection = new_id()
    owner = {"account_id": account_id, "connection_id": connection}
    session.add(ProviderConnection(id=connection, account_id=account_id, provider="openai"))
    session.flush()
    for project, name in (("proj_1", "chat"), ("proj_2", EVIL)):
        kinds = {"kind": "project", "name_id": project, "name": name, "parent_id": ""}
        session.add(ReportedName(**owner, **kinds))
    usage, costs, calls = [], [], []
    for number in range(28):
        day = MONTH + timedelta(days=number)
        shared = {**owner, "bucket_at": month_start(day), "day": day, "key_id": ""}
        weekday, sent = number % 7 - 3, 25_000_000 + (number % 5 - 2) * 10_000
        for project, prompt in (("proj_1", sent), ("proj_2", 10_000_000 + weekday * 1_000_000)):
            usd = Decimal(prompt) * Decimal("2.5") / 10**6
            usage.append(
                {
                    **shared,
                    **{"report": "completions", "is_hourly": False, "project_id": project},
                    **{"model": MODEL, "tier": "", "context": "", "region": "", "units": {}},
                    **{"requests": 10, "prompt_tokens": prompt, "completion_tokens": 0},
                    **{"cached_tokens": 0, "cache_write_tokens": 0, "cache_write_1h_tokens": 0},
                    **{"list_usd": usd, "cost_usd": usd},
                }
            )
            cost = {**shared, "report": "costs", "project_id": project, "currency": "USD"}
            paid = {"amount": usd * Decimal(rate), "line_item": f"{MODEL}, input"}
            costs.append({**cost, **paid, "kind": "tokens", "model": MODEL})
        fee = {"line_item": "file search", "kind": "file_search", "model": "", "amount": 4}
        costs.append({**cost, **fee})
        usd_sent = str(Decimal(sent) * Decimal("2.5") / 10**6)
        counts = {"prompt_tokens": sent, "completion_tokens": 0, "cached_tokens": 0}
        calls.append(spend_line(day, usd_sent, model=MODEL, **counts, cache_write_tokens=0))
    session.execute(insert(ReportedUsage), usage)
    session.execute(insert(ReportedCost), costs)
    if sends:
        add_spend(session, account_id, *calls)
    return connection


def unsent_on(day: date, **more: Any) -> DailySpend:
    line = DailySpend(
        day=day,
        route="not sent: search",
        provider="anthropic",
        model="claude-haiku-4-5",
        environment=SOURCE,
        calls=0,
        unpriced_calls=0,
        prompt_tokens=1_000,
        completion_tokens=10,
        cached_tokens=0,
        cache_write_tokens=0,
        cost_usd=Decimal("12.5"),
        list_usd=Decimal("12.5"),
    )
    return replace(line, **more)
