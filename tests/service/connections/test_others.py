"""What single providers need beside what all do: Cursor's pages, GitHub's keys."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import InvalidOperation
from typing import Any

import pytest
from sqlalchemy.orm import Session

from service.config import Config
from service.connections import list_providers
from service.connections.client import (
    UnreadableResponseError,
    WrongKeyError,
    fetch_window,
    open_client,
)
from service.connections.provider import CostLine, UsageLine, Window
from service.connections.stub import running
from service.models import ProviderConnection
from service.models.connections.connections import SameOrganizationError, add_connection
from service.operations.connections.connecting import KeyRefusedError, try_key
from tests.cases import each_case
from tests.service.connections.connecting import Connected
from tests.service.connections.worlds import make_provider
from tests.service.support.scenes import add_account


@each_case("name", ["cursor", "github-copilot", "openrouter"])
def test_a_key_is_tried_and_says_what_it_sees(name: str) -> None:
    provider = make_provider(name, days=3, rows=2)
    known = list_providers()[name]
    with running(provider.stub), open_client(known, provider.key, provider.stub.url) as client:
        sight = known.look(client, provider.world.now())
    assert sight.first_cost is not None
    identities = {"github-copilot": ["acme"], "openrouter": ["ws_1", "ws_2"]}
    assert sight.identity == identities.get(name, ())
    assert client.requests == len(provider.stub.requests)


@each_case("name", ["aws", "github-copilot"])
def test_a_removed_connection_without_a_key_opens_nothing(name: str) -> None:
    with open_client(list_providers()[name], "") as client:
        assert client.requests == 0


def test_events_that_move_to_the_next_page_count_once(connect: Callable[..., Connected]) -> None:
    """A new event comes while older ones are read: each page then begins with a known one."""
    provider = make_provider("cursor", days=6, rows=5)
    world = provider.world
    world.per_page = 4
    connected = connect(provider)
    moved = list(world.rows)

    def arrive(_path: str, query: Any) -> None:
        if query["page"] == ["2"]:
            newest = max(row["time"] for row in world.rows)
            world.rows.append({**world.rows[0], "time": newest + timedelta(milliseconds=1)})

    provider.stub.faults = [arrive] * 5
    connected.pull()
    assert len(world.rows) > len(moved)
    connected.pull_again()
    connected.assert_equal()


def test_a_page_of_events_that_comes_again_stores_nothing() -> None:
    provider, known = make_provider("cursor", days=3, rows=2), list_providers()["cursor"]
    play = provider.stub.answer

    def answer(path: str, query: Any, headers: Any) -> Any:
        found = play(path, {**query, "page": ["1"]}, headers)
        found.body["pagination"]["hasNextPage"] = True
        return found

    provider.stub.answer = answer
    window = Window(known.reports[0], provider.world.now() - timedelta(days=5), None)
    with (
        running(provider.stub),
        open_client(known, provider.key, provider.stub.url) as client,
        pytest.raises(UnreadableResponseError),
    ):
        fetch_window(client, known, window)
    assert len(provider.stub.requests) == 2


@each_case("error", [InvalidOperation, OverflowError, AttributeError])
def test_an_answer_of_another_form_refuses_the_key(
    error: type[Exception], own_database: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = list_providers()["cursor"]

    def look(*_given: Any) -> Any:
        raise error

    monkeypatch.setattr(known, "look", look)
    with pytest.raises(KeyRefusedError):
        try_key(own_database, known, "canary")


@each_case(
    "key", ["canary", "canary:", ":canary", "../canary:x", "acme/x:canary", "a" * 40 + ":canary"]
)
def test_a_token_without_its_organization_is_refused(key: str, own_database: Config) -> None:
    known = list_providers()["github-copilot"]
    with pytest.raises(WrongKeyError), open_client(known, key):
        pass
    with pytest.raises(KeyRefusedError, match="wrong kind of key") as raised:
        try_key(own_database, known, key)
    assert "canary" not in str(raised.value)


def test_no_request_to_cursor_is_longer_than_30_days() -> None:
    """Cursor refuses ranges over 30 days, and each month is pulled again as a whole."""
    provider = make_provider("cursor", days=40, rows=1)
    known = list_providers()["cursor"]
    first = provider.world.rows[-1]["time"].replace(hour=0, minute=0, second=0, microsecond=0)
    window = Window(known.reports[0], first, first + timedelta(days=31))
    with running(provider.stub), open_client(known, provider.key, provider.stub.url) as client:
        found = fetch_window(client, known, window)
    assert len({line.bucket for line in found.lines if isinstance(line, UsageLine)}) > 15
    assert client.requests == 2


def test_fees_of_two_models_are_two_lines_across_pages() -> None:
    known = list_providers()["anthropic"]
    [report] = [each for each in known.reports if each.name == "analytics_costs"]
    first = datetime(2026, 9, 1, tzinfo=UTC)
    pages = {"": ("claude-opus-4-1", "100"), "2": ("claude-sonnet-4-5", "200")}

    class Pages:
        requests = 0

        def get(self, _path: str, query: Any, _headers: Any) -> Any:
            page = dict(query).get("page", "")
            model, cents = pages[page]
            group = {"cost_type": "web_search", "model": model}
            cost = {"amount": cents, "list_amount": cents, "currency": "USD"}
            row = {"starting_at": first.isoformat(), "group": group, "cost": cost}
            return {"data": [row], "has_more": not page, "next_page": None if page else "2"}

    asking: Any = Pages()
    lines = fetch_window(asking, known, Window(report, first, first + timedelta(days=1))).lines
    assert sum(line.amount for line in lines if isinstance(line, CostLine)) == 3


def test_a_key_that_shows_no_organization_is_connected_once(db_session: Session) -> None:
    account = add_account(db_session)
    for provider, key in (("aws", "AKIA:canary"), ("aws", "AKIA:other"), ("cursor", "AKIA:canary")):
        row = ProviderConnection(account_id=account.id, provider=provider, key=key, sight={})
        add_connection(db_session, row)
    again = ProviderConnection(account_id=account.id, provider="aws", key="AKIA:canary", sight={})
    with pytest.raises(SameOrganizationError):
        add_connection(db_session, again)


def test_a_key_that_is_a_file_has_lines_and_is_tried_whole(
    own_database: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, known = make_provider("cursor", days=2, rows=1), list_providers()["cursor"]
    key = provider.world.key = '{\n  "private_key": "-----BEGIN PRIVATE KEY-----"\n}' + " " * 2_000
    with running(provider.stub):
        config = replace(own_database, connection_urls=f"cursor={provider.stub.url}")
        with pytest.raises(KeyRefusedError, match="without spaces"):
            try_key(config, known, key)
        monkeypatch.setattr(known, "key_is_file", True, raising=False)
        assert try_key(config, known, key)["first_cost"]
        with pytest.raises(KeyRefusedError, match="whole JSON file"):
            try_key(config, known, key * 3)
