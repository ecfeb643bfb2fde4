"""Azure: a key is exchanged for a token, pages are followed on Azure's host alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.connections import list_providers
from service.connections.client import (
    RevokedKeyError,
    ThrottledError,
    UnreadableResponseError,
    WrongKeyError,
    fetch_window,
    open_client,
)
from service.connections.provider import COSTS, Window
from service.connections.stub import Answer, running
from tests.cases import each_case
from tests.service.connections.schemas import check, read_body
from tests.service.connections.worlds import make_provider

KNOWN = list_providers()["azure"]
DAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
_TYPES = {"query": "QueryResult", "accounts": "AccountListResult", "metrics": "Response"}
_IDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2, 3)]
KEY = f"{_IDS[0]}:{_IDS[1]}:canary:of:{_IDS[2]}"  # a secret may have colons


def _fetch(provider: Any, number: int) -> Any:
    window = Window(KNOWN.reports[number], DAY - timedelta(9), None)
    with open_client(KNOWN, provider.key, provider.stub.url) as client:
        return fetch_window(client, KNOWN, window).lines


def test_a_link_to_another_host_is_followed_at_azure_by_its_token_alone() -> None:
    provider = make_provider("azure", days=5, rows=6)
    with running(provider.stub):
        whole = _fetch(provider, 0)
        provider.world.per_page = 3
        provider.stub.requests.clear()
        parts = _fetch(provider, 0)
    assert sorted(map(str, parts)) == sorted(map(str, whole))
    assert len(provider.stub.requests) > 3
    assert {line.model for line in whole} == {""}
    assert not any("Dv5" in line.line_item for line in whole)


def test_the_secret_goes_to_the_sign_in_alone() -> None:
    provider = make_provider("azure", days=3, rows=2)
    provider.world.key = KEY
    seen: list[Any] = []
    play = provider.stub.answer

    def answer(path: str, query: Any, headers: Any) -> Answer:
        seen.append((path, query, headers))
        return play(path, query, headers)

    provider.stub.answer = answer
    with running(provider.stub):
        assert _fetch(provider, 1)
    sign_in, *others = seen
    assert sign_in[0].endswith("/token")
    assert sign_in[1]["client_secret"] == ["canary:of"]
    assert "canary" not in str(others)


def test_requests_and_answers_are_of_the_libraries_types() -> None:
    provider = make_provider("azure", days=5, rows=6)
    provider.world.per_page = 3
    play, kinds = provider.stub.answer, set()

    def answer(path: str, query: Any, headers: Any) -> Answer:
        found = play(path, query, headers)
        kind = _TYPES.get(path.rpartition("/")[2], "")
        if kind == "QueryResult":
            asked = {name: values for name, values in query.items() if "-" not in name}
            asked.pop("$skiptoken", None)
            check("azure", "QueryDefinition", read_body(asked))
        if kind:
            kinds.add(kind)
            check("azure", kind, found.body)
        return found

    provider.stub.answer = answer
    with running(provider.stub):
        assert _fetch(provider, 0)
        assert _fetch(provider, 1)
    assert kinds == set(_TYPES.values())


def test_resources_of_all_pages_are_read() -> None:
    provider = make_provider("azure", days=5, rows=6)
    with running(provider.stub):
        whole = _fetch(provider, 1)
        provider.world.accounts_per_page = 1
        assert _fetch(provider, 1) == whole
    assert {line.project_id for line in whole} == {"chat", "search"}


@each_case(
    ("status", "headers", "error"),
    [
        (401, {}, RevokedKeyError),
        (400, {}, RevokedKeyError),
        (429, {"x-ms-ratelimit-microsoft.costmanagement-entity-retry-after": "77"}, ThrottledError),
    ],
)
def test_an_error_of_azure_says_why(status: int, headers: Any, error: type[Exception]) -> None:
    provider = make_provider("azure", days=1)
    answer = Answer({"error": "invalid_client"}, status, headers)
    provider.stub.answer = lambda _path, _query, _headers: answer
    with running(provider.stub), pytest.raises(error) as raised:
        _fetch(provider, 0)
    assert getattr(raised.value, "seconds", 77) == 77


@each_case("link", ["?$skiptoken=a", "?$skiptoken=a%0d%0ab", "?other=1"])
def test_a_link_that_leads_nowhere_new_stores_nothing(link: str) -> None:
    provider = make_provider("azure", days=1)
    play = provider.stub.answer

    def answer(path: str, query: Any, headers: Any) -> Answer:
        query.pop("$skiptoken", None)
        found = play(path, query, headers)
        if "properties" in found.body:
            found.body["properties"]["nextLink"] = f"https://x.example/{link}"
        return found

    provider.stub.answer = answer
    with running(provider.stub), pytest.raises(UnreadableResponseError):
        _fetch(provider, 0)


@each_case("key", ["x", "a:b:c:d", f"{_IDS[0]}:{_IDS[1]}:{_IDS[2]}", KEY[:-1], "../" + KEY])
def test_a_key_has_its_ids(key: str) -> None:
    with pytest.raises(WrongKeyError), open_client(KNOWN, key):
        pass


def test_a_token_keeps_its_signs() -> None:
    paths: list[str] = []

    class Pages:
        requests = 0
        subscription = "s"

        def post(self, path: str, _body: Any) -> Any:
            paths.append(path)
            more = {"nextLink": "https://x.example/?$skiptoken=a%2Bb%3D"} if paths[1:] == [] else {}
            return {"properties": {"columns": [], "rows": [], **more}}

    asking: Any = Pages()
    first = datetime(2026, 9, 1, tzinfo=UTC)
    [report] = [each for each in KNOWN.reports if each.kind == COSTS]
    KNOWN.request(asking, Window(report, first, first + timedelta(days=1)), None)
    assert paths[1].endswith("&$skiptoken=a%2Bb%3D")
