"""What people did with Claude Code: pulled by day, shown on the page, and without their names."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from service.connections.anthropic.stub import World, make_stub
from service.connections.stub import Stub, running
from service.models import ProviderConnection, ReportedActivity, ReportedName
from service.models.base import utc_now
from tests.service.connections.connecting import Connected
from tests.service.connections.worlds import make_provider
from tests.service.support.browser import Browser, words_of

ADA = "ada-canary@example.org"
PAGE = "/settings/connections"


def _row(days_ago: int, person: str = ADA, sessions: int = 2) -> dict[str, Any]:
    day = utc_now() - timedelta(days=days_ago)
    tokens = {"input": 1_000, "output": 50, "cache_read": 9_000, "cache_creation": 100}
    cost = {"amount": 125, "currency": "USD"}
    model = {"model": "claude-opus-4-1-20250805", "tokens": tokens, "estimated_cost": cost}
    lines = {"added": 40, "removed": 4}
    return {
        "date": f"{day:%Y-%m-%d}T00:00:00Z",
        "actor": {"type": "user_actor", "email_address": person},
        "customer_type": "api",
        "terminal_type": "vscode",
        "core_metrics": {"num_sessions": sessions, "lines_of_code": lines},
        "tool_actions": {"edit_tool": {"accepted": 3, "rejected": 1}},
        "model_breakdown": [model],
    }


def _stored(connected: Connected) -> list[Any]:
    connected.session.expire_all()
    query = select(ReportedActivity).order_by(ReportedActivity.day, ReportedActivity.model)
    return list(connected.session.scalars(query))


def test_each_day_is_stored_once_and_as_it_was_said_last(connect: Callable[..., Connected]) -> None:
    provider = make_provider("anthropic", days=2, rows=1)
    world = provider.world
    people = [_row(3, f"{number}@example.org") for number in range(5)]
    world.claude_code = [_row(60), *people, _row(1)]
    world.paging.buckets_per_page, world.paging.repeats_pages = 2, True
    connected = connect(provider)
    connected.pull()
    rows = _stored(connected)
    assert len({(row.day, row.person_id, row.model) for row in rows}) == len(rows) == 14
    assert sum(row.sessions for row in rows) == 14
    assert sum(row.estimated_usd for row in rows) == 7 * Decimal("1.25")
    assert sum(row.prompt_tokens for row in rows) == 7 * 10_100
    world.claude_code = [_row(60), _row(1, sessions=9)]
    connected.pull_again()
    assert [row.sessions for row in _stored(connected) if not row.model] == [2, 9]


def test_people_are_stored_as_hashes_unless_the_account_wants_them(
    connect: Callable[..., Connected],
) -> None:
    provider = make_provider("anthropic", days=2, rows=1)
    provider.world.claude_code = [_row(1)]
    connected = connect(provider)
    connected.pull()
    with connected.engine.connect() as connection:
        for table in ("reported_activity", "reported_names", "connection_pulls"):
            stored = connection.execute(text(f"SELECT * FROM {table}")).all()
            assert "canary" not in str(stored)
    connected.row.shows_people = True
    connected.session.commit()
    connected.pull_again()
    query = select(ReportedName).where(ReportedName.kind == "person")
    [name] = connected.session.scalars(query)
    assert (name.name, name.name_id) == (ADA, _stored(connected)[0].person_id)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running(make_stub(World())) as stub:
        yield stub


@pytest.fixture
def app(make_app: Callable[..., Flask], stub: Stub) -> Flask:
    return make_app(connection_urls=f"anthropic={stub.url}")


def test_the_page_shows_people_and_models_and_forgets_names(
    ada: Browser, db_session: Session
) -> None:
    row = ProviderConnection(account_id=ada.account_id, provider="anthropic", sight={})
    row.shows_people, row.progress = True, {"claude_code": {"at": "x"}, "costs": {"at": "y"}}
    db_session.add(row)
    db_session.flush()
    owner = {"account_id": ada.account_id, "connection_id": row.id}
    person = {"kind": "person", "name_id": "0123456789abcdef", "name": ADA, "parent_id": ""}
    db_session.add(ReportedName(**owner, **person))
    zero = {column.name: 0 for column in ReportedActivity.__table__.columns[10:]}
    labels = {"report": "claude_code", "bucket_at": utc_now(), "day": utc_now().date()}
    labels |= {"person_id": "0123456789abcdef", "plan": "subscription", "terminal": "vscode"}
    work = {"sessions": 3, "lines_added": 1_234, "accepted": 3, "rejected": 1}
    db_session.add(ReportedActivity(**owner, **labels, **{**zero, **work}, model=""))
    used = {"prompt_tokens": 1_000_000, "estimated_usd": Decimal("12.34")}
    db_session.add(ReportedActivity(**owner, **labels, **{**zero, **used}, model="claude-x"))
    db_session.commit()
    page = f"{PAGE}/{row.id}"
    words = words_of(ada.get(page))
    assert f"{ADA} 1 3 +1,234 −0 0 75.0% 1.00M $12.34" in words, words
    assert "claude-x plan 1 1.00M" in words
    assert ada.post(page, f"{page}/names", names="on").status_code == 303
    assert "canary" not in ada.get(page)
    assert "012345" in ada.get(page)
    assert ada.post(page, f"{page}/names", names="on", people="on").status_code == 303
    db_session.expire_all()
    assert db_session.get_one(ProviderConnection, row.id).progress == {"costs": {"at": "y"}}
