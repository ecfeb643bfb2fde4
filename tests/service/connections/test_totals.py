"""What totals alone prove: planted waste is found, with exact dollars where it is linear."""

from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy.orm import Session

from service.models import ProviderConnection, ReportedName
from service.models.base import utc_now
from service.models.connections.reported import retire_names, save_names
from service.operations.connections.totals import BATCH, OLD_MODEL, UNCACHED, UNREAD_WRITES, UNUSED
from tests.service.connections.reports import TODAY, Reports
from tests.service.support.spend import add_spend, spend_line

SONNET, GPT = "claude-sonnet-4-5-20250929", "gpt-4o-2024-08-06"


@pytest.fixture
def openai(db_session: Session) -> Reports:
    return Reports(db_session, "openai")


@pytest.fixture
def anthropic(db_session: Session) -> Reports:
    return Reports(db_session, "anthropic")


def test_an_old_model_is_found_with_exact_dollars(openai: Reports) -> None:
    """GPT-4 is $30 and $60 a million tokens, GPT-4.1 is $2 and $8."""
    openai.add("gpt-4.1", "key_1", prompt_tokens=10_000_000, completion_tokens=100_000)
    assert openai.find(OLD_MODEL) == []
    openai.add("gpt-4-0613", "key_1", prompt_tokens=1_000_000, completion_tokens=100_000)
    [found] = openai.find(OLD_MODEL)
    assert found.better == "gpt-4.1"
    assert found.usd == 10 * ((30 - 2) + (60 - 8) / Decimal(10))


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
    read = {"prompt_tokens": 9_000_000, "cache_write_tokens": 1_000_000, "cached_tokens": 6_000_000}
    anthropic.add(SONNET, "key_2", **read)
    assert anthropic.find(UNREAD_WRITES) == []
    counts = {"prompt_tokens": 3_000_000, "cache_write_tokens": 2_000_000, "cached_tokens": 100_000}
    anthropic.add(SONNET, "key_1", **counts)
    [found] = anthropic.find(UNREAD_WRITES)
    assert found.confidence == "VERIFIED"
    assert found.usd == 10 * (2 * Decimal("0.75") - Decimal("0.1") * Decimal("2.7"))


def test_a_key_that_works_around_the_clock_could_use_the_batch_tier(openai: Reports) -> None:
    counts = {"prompt_tokens": 4_000_000, "requests": 2_400}
    openai.add(GPT, "key_1", **counts)
    openai.add_hours(GPT, "key_1", [100] * 24)
    openai.add(GPT, "key_2", **counts)
    openai.add_hours(GPT, "key_2", [5] * 8 + [300] * 8 + [5] * 8)
    # A day and a half in two regions are as many rows as three days, and too few to know.
    openai.add(GPT, "key_3", **counts)
    for region in ("us", "eu"):
        openai.add_hours(GPT, "key_3", [100] * 24, days=2, region=region)
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
    connection = db_session.connection()
    retire_names(connection, openai.id)  # it vanished at the provider, or no longer works
    assert openai.find(UNUSED) == []
    save_names(connection, [{**owner, "name_id": "key_9", "name": "", "parent_id": "proj"}])
    assert [each.key for each in openai.find(UNUSED)] == ["key_9"]
    row = db_session.get_one(ProviderConnection, openai.id)
    row.failing_since = utc_now()
    db_session.flush()
    assert openai.find(UNUSED) == []
    row.failing_since, row.removed_at = None, utc_now()
    db_session.flush()
    assert openai.find(UNUSED) == []


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


def test_what_one_project_does_not_send_is_a_finding_of_that_project_alone(
    openai: Reports, db_session: Session
) -> None:
    lines = []
    for number in range(1, 11):
        day = TODAY - timedelta(days=number)
        counts = {"prompt_tokens": 1_000_000 + number * 90_000, "completion_tokens": 100_000}
        none = {"cached_tokens": 0, "cache_write_tokens": 0}
        lines.append(spend_line(day, "36", model="gpt-4-0613", **counts, **none))
        usd = dict.fromkeys(
            ("list_usd", "cost_usd"), Decimal(counts["prompt_tokens"]) * 30 / 10**6 + 6
        )
        openai.add_on(day, "gpt-4-0613", "key_1", **counts, **usd, project_id="sends")
        silent = {"prompt_tokens": 2_000_000 - number * 70_000, "completion_tokens": 0}
        usd = dict.fromkeys(usd, Decimal(silent["prompt_tokens"]) * 30 / 10**6)
        openai.add_on(day, "gpt-4-0613", "key_2", **silent, **usd, project_id="silent")
    add_spend(db_session, openai.account_id, *lines)
    [found] = openai.find(OLD_MODEL)
    assert found.project == "silent"
    prompt = sum(2_000_000 - number * 70_000 for number in range(1, 11))
    assert found.usd == pytest.approx(Decimal(prompt) * (30 - 2) / 10**6, rel=Decimal("0.001"))
