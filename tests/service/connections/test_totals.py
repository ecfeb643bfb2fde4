"""What totals alone prove: planted waste is found, with exact dollars where it is linear."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import insert
from sqlalchemy.orm import Session

from service.models import Account, ProviderConnection, ReportedName, ReportedUsage
from service.models.base import new_id
from service.operations.connections.totals import (
    BATCH,
    OLD_MODEL,
    UNCACHED,
    UNREAD_WRITES,
    UNUSED,
    TotalsFinding,
    audit_totals,
)
from tests.service.support.spend import add_spend, spend_line

TODAY = date(2026, 11, 20)
SONNET, GPT = "claude-sonnet-4-5-20250929", "gpt-4o-2024-08-06"


class Reports:
    """An account with a connection, whose usage a test writes."""

    def __init__(self, session: Session, provider: str) -> None:
        self.session, self.provider = session, provider
        account = Account(email=f"{new_id()}@example.org")
        session.add(account)
        session.flush()
        self.account_id, self.id = account.id, new_id()
        owner = {"id": self.id, "account_id": account.id, "provider": provider}
        session.add(ProviderConnection(**owner))
        session.flush()

    def add(self, model: str, key: str, days: int = 10, **counts: Any) -> None:
        for number in range(1, days + 1):
            day = TODAY - timedelta(days=number)
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

    def add_hours(self, model: str, key: str, requests: Sequence[int]) -> None:
        for number in range(1, 5):
            midnight = datetime.combine(TODAY - timedelta(days=number), time(), UTC)
            for hour, count in enumerate(requests):
                at = midnight + timedelta(hours=hour)
                self._add(at, model, key, is_hourly=True, requests=count, prompt_tokens=1)

    def find(self, kind: str) -> list[TotalsFinding]:
        connection = self.session.connection()
        found = audit_totals(connection, self.account_id, self.provider, TODAY)
        return [each for each in found if each.kind == kind]


@pytest.fixture
def openai(db_session: Session) -> Reports:
    return Reports(db_session, "openai")


@pytest.fixture
def anthropic(db_session: Session) -> Reports:
    return Reports(db_session, "anthropic")


def test_an_old_model_is_found_with_exact_dollars(openai: Reports) -> None:
    """GPT-4 is $30 and $60 a million tokens, GPT-4.1 is $2 and $8."""
    openai.add("gpt-4-0613", "key_1", prompt_tokens=1_000_000, completion_tokens=100_000)
    [found] = openai.find(OLD_MODEL)
    assert found.better == "gpt-4.1"
    assert found.usd == 10 * ((30 - 2) + (60 - 8) / Decimal(10))


def test_current_models_are_no_finding(openai: Reports) -> None:
    openai.add("gpt-4.1", "key_1", prompt_tokens=10_000_000, completion_tokens=100_000)
    assert openai.find(OLD_MODEL) == []


def test_an_uncached_key_is_found_beside_others_of_its_model(openai: Reports) -> None:
    for key in ("key_1", "key_2", "key_3"):
        openai.add(GPT, key, prompt_tokens=1_000_000, cached_tokens=600_000)
    openai.add(GPT, "key_4", prompt_tokens=1_000_000, cached_tokens=10_000)
    [found] = openai.find(UNCACHED)
    assert (found.key, found.usual, found.confidence) == ("key_4", 0.6, "INFORMATIONAL")
    assert found.usd == 10 * 590_000 * Decimal("1.25") / 10**6  # $2.50 less $1.25 a million


def test_a_key_alone_with_its_model_is_no_finding(openai: Reports) -> None:
    openai.add(GPT, "key_1", prompt_tokens=10_000_000)
    openai.add(GPT, "key_2", prompt_tokens=10_000_000, cached_tokens=9_000_000)
    assert openai.find(UNCACHED) == []


def test_unread_writes_are_found_with_exact_dollars(anthropic: Reports) -> None:
    """Sonnet 4.5 is $3 a million; a write is $0.75 more, a read $2.70 less."""
    counts = {"prompt_tokens": 3_000_000, "cache_write_tokens": 2_000_000, "cached_tokens": 100_000}
    anthropic.add(SONNET, "key_1", **counts)
    [found] = anthropic.find(UNREAD_WRITES)
    assert found.confidence == "VERIFIED"
    assert found.usd == 10 * (2 * Decimal("0.75") - Decimal("0.1") * Decimal("2.7"))


def test_writes_that_are_read_are_no_finding(anthropic: Reports) -> None:
    counts = {"prompt_tokens": 9_000_000, "cache_write_tokens": 1_000_000}
    anthropic.add(SONNET, "key_1", **counts, cached_tokens=6_000_000)
    assert anthropic.find(UNREAD_WRITES) == []


def test_a_key_that_works_around_the_clock_could_use_the_batch_tier(openai: Reports) -> None:
    counts = {"prompt_tokens": 4_000_000, "requests": 2_400}
    openai.add(GPT, "key_1", **counts)
    openai.add_hours(GPT, "key_1", [100] * 24)
    openai.add(GPT, "key_2", **counts)
    openai.add_hours(GPT, "key_2", [5] * 8 + [300] * 8 + [5] * 8)
    [found] = openai.find(BATCH)
    assert (found.key, found.confidence) == ("key_1", "CONDITIONAL")
    assert found.usd > 0


def test_a_key_without_use_is_named(openai: Reports, db_session: Session) -> None:
    owner = {"connection_id": openai.id, "account_id": openai.account_id, "kind": "key"}
    for key in ("key_1", "key_9"):
        named = {"name_id": key, "name": f"Name of {key}", "parent_id": "proj"}
        db_session.add(ReportedName(**owner, **named))
    openai.add(GPT, "key_1", prompt_tokens=10)
    assert [each.key for each in openai.find(UNUSED)] == ["Name of key_9"]


def test_what_calls_cover_is_not_found_again(openai: Reports, db_session: Session) -> None:
    counts = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000}
    openai.add("gpt-4-0613", "key_1", **counts)
    lines = [
        spend_line(
            TODAY - timedelta(days=number),
            "36",
            model="gpt-4-0613",
            **counts,
            cached_tokens=0,
            cache_write_tokens=0,
        )
        for number in range(1, 6)
    ]
    add_spend(db_session, openai.account_id, *lines)
    [found] = openai.find(OLD_MODEL)
    assert found.usd == 5 * ((30 - 2) + (60 - 8) / Decimal(10))
