"""What single providers need beside what all do: Cursor's pages, GitHub's keys."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from service.config import Config
from service.connections import list_providers
from service.connections.client import WrongKeyError, open_client
from service.connections.stub import running
from service.operations.connections.connecting import KeyRefusedError, try_key
from tests.service.connections.connecting import Connected
from tests.service.connections.worlds import make_provider


@pytest.mark.parametrize("name", ["cursor", "github-copilot", "openrouter"])
def test_a_key_is_tried_and_says_what_it_sees(name: str) -> None:
    provider = make_provider(name, days=3, rows=2)
    known = list_providers()[name]
    with running(provider.stub), open_client(known, provider.key, provider.stub.url) as client:
        sight = known.look(client, provider.world.now())
    assert sight.first_cost is not None
    identities = {"github-copilot": ["acme"], "openrouter": ["ws_1", "ws_2"]}
    assert sight.identity == identities.get(name, ())
    assert client.requests == len(provider.stub.requests)


@pytest.mark.parametrize("name", ["aws", "github-copilot"])
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


@pytest.mark.parametrize(
    "key", ["canary", "canary:", ":canary", "../canary:x", "acme/x:canary", "a" * 40 + ":canary"]
)
def test_a_token_without_its_organization_is_refused(key: str, own_database: Config) -> None:
    known = list_providers()["github-copilot"]
    with pytest.raises(WrongKeyError), open_client(known, key):
        pass
    with pytest.raises(KeyRefusedError, match="wrong kind of key") as raised:
        try_key(own_database, known, key)
    assert "canary" not in str(raised.value)
