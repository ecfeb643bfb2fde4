"""Reported usage and costs that tests write straight into their tables."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from service.models import ProviderConnection, ReportedCost, ReportedUsage
from service.models.base import new_id, utc_now
from service.operations.connections.totals import TotalsFinding, audit_totals
from tests.service.support.scenes import add_account

TODAY = date(2026, 11, 20)


class Reports:
    """An account with a connection, whose usage a test writes."""

    def __init__(self, session: Session, provider: str) -> None:
        self.session, self.provider = session, provider
        account = add_account(session)
        self.account_id, self.id = account.id, new_id()
        owner = {"id": self.id, "account_id": account.id, "provider": provider}
        session.add(ProviderConnection(**owner, pulled_at=utc_now()))
        session.flush()

    def add(self, model: str, key: str, days: int = 10, **counts: Any) -> None:
        for number in range(1, days + 1):
            self.add_on(TODAY - timedelta(days=number), model, key, **counts)

    def add_on(self, day: date, model: str, key: str, **counts: Any) -> None:
        self._add(datetime.combine(day, time(), UTC), model, key, **counts)

    def _add(self, at: datetime, model: str, key: str, **counts: Any) -> None:
        zero = dict.fromkeys(("cached_tokens", "cache_write_tokens", "cache_write_1h_tokens"), 0)
        row = {
            **{"account_id": self.account_id, "connection_id": self.id, "report": "messages"},
            **{"bucket_at": at, "day": at.date(), "is_hourly": False, "project_id": "proj"},
            **{"key_id": key, "model": model, "tier": "", "context": "", "region": ""},
            **{"requests": 0, "prompt_tokens": 0, "completion_tokens": 0, "units": {}},
            **{"list_usd": Decimal(1), "cost_usd": Decimal(1)},
            **zero,
            **counts,
        }
        self.session.execute(insert(ReportedUsage), [row])

    def add_cost(self, day: date, amount: str, model: str, **more: Any) -> None:
        at = datetime.combine(day, time(), UTC)
        row = {
            **{"account_id": self.account_id, "connection_id": self.id, "report": "costs"},
            **{"bucket_at": at, "day": day, "project_id": "proj", "key_id": "", "model": model},
            **{"kind": "tokens", "line_item": model, "currency": "USD", "amount": Decimal(amount)},
            **more,
        }
        self.session.execute(insert(ReportedCost), [row])

    def add_hours(
        self, model: str, key: str, tokens: Sequence[int], days: int = 4, **labels: Any
    ) -> None:
        for number in range(1, days + 1):
            midnight = datetime.combine(TODAY - timedelta(days=number), time(), UTC)
            for hour, count in enumerate(tokens):
                at = midnight + timedelta(hours=hour)
                self._add(at, model, key, is_hourly=True, prompt_tokens=count, **labels)

    def find(self, kind: str) -> list[TotalsFinding]:
        connection = self.session.connection()
        found = audit_totals(connection, self.account_id, self.provider, TODAY)
        return [each for each in found if each.kind == kind]
