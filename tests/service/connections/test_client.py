"""A key goes to its provider's host and nowhere else, and a failure says why."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from service.connections import client as client_module
from service.connections import list_providers
from service.connections.client import (
    Client,
    ConnectionFailedError,
    EmptyWindowError,
    MissingRightError,
    ProviderDownError,
    RedirectedError,
    RevokedKeyError,
    ThrottledError,
    UnreadableResponseError,
    WrongKeyError,
    fetch_window,
    find_url,
)
from service.connections.provider import Window
from service.connections.stub import Answer, Stub, running
from tests.cases import each_case

KEY = "sk-admin-canary-4711"


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setattr(client_module, "_FIRST_PAUSE_SECONDS", 0.001)
    with running(Stub(lambda _path, _query, _headers: Answer({"data": []}))) as found:
        yield found


def _client(stub: Stub, provider: str = "openai", **more: Any) -> Client:
    return Client(list_providers()[provider], KEY, stub.url, **more)


@each_case(
    ("answer", "error"),
    [
        (Answer({"error": {"code": "invalid_api_key"}}, 401), RevokedKeyError),
        (Answer({"error": {"code": "invalid_key_type"}}, 401), WrongKeyError),
        (Answer({"error": {"code": "missing_scope"}}, 401), WrongKeyError),
        (Answer({}, 403), MissingRightError),
        (Answer({}, 404), MissingRightError),
        (Answer({}, 500), ProviderDownError),
        (Answer({}, 503), ProviderDownError),
        (Answer([], 418), UnreadableResponseError),
        (Answer({}, 429, {"Retry-After": "120"}), ThrottledError),
        (Answer({}, 403, {"Retry-After": "120"}), ThrottledError),  # as GitHub says it
    ],
)
def test_a_failure_says_why(stub: Stub, answer: Answer, error: type[ConnectionFailedError]) -> None:
    stub.answer = lambda _path, _query, _headers: answer
    with _client(stub) as client, pytest.raises(error) as raised:
        client.get("/x")
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/x", "http://169.254.169.254/latest"])
def test_a_redirect_is_not_followed(stub: Stub, location: str) -> None:
    stub.answer = lambda _path, _query, _headers: Answer({}, 302, {"Location": location})
    with _client(stub) as client, pytest.raises(RedirectedError):
        client.get("/x")
    assert len(stub.requests) == 1


def test_the_key_goes_to_its_provider_in_a_header_and_never_in_an_address(stub: Stub) -> None:
    seen: list[Any] = []

    def answer(path: str, query: Any, headers: Any) -> Answer:
        seen.append((path, query, headers))
        return Answer({})

    stub.answer = answer
    with _client(stub) as client:
        client.get("/x", [("a", "b")])
    with _client(stub, "anthropic") as client:
        client.get("/x", [("a", "b")])
    assert seen[0][2]["authorization"] == f"Bearer {KEY}"
    assert seen[1][2]["x-api-key"] == KEY
    assert all(KEY not in str(each[:2]) for each in seen)


def test_an_empty_window_is_an_error_of_anthropic_alone(stub: Stub) -> None:
    stub.answer = lambda _path, _query, _headers: Answer({}, 400)
    with _client(stub, "anthropic") as client, pytest.raises(EmptyWindowError):
        client.get("/x")
    with _client(stub) as client, pytest.raises(UnreadableResponseError):
        client.get("/x")


def test_a_short_pause_is_made_and_a_long_one_is_left_to_a_later_job(stub: Stub) -> None:
    pauses: list[float] = []
    stub.faults = [Answer({}, 429, {"Retry-After": "3"})]
    with _client(stub, sleep=pauses.append) as client:
        client.get("/x")
    assert pauses == [3.0]
    stub.faults = [Answer({}, 429, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"})]
    with _client(stub, sleep=pauses.append) as client, pytest.raises(ThrottledError) as raised:
        client.get("/x")
    assert raised.value.seconds > 3_600
    assert pauses == [3.0]


def test_an_answer_without_an_end_is_given_up(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_BYTES", 1_000)
    stub.answer = lambda _path, _query, _headers: Answer({"data": "x" * 2_000})
    with _client(stub) as client, pytest.raises(UnreadableResponseError):
        client.get("/x")


def test_an_amount_keeps_all_its_digits(stub: Stub) -> None:
    stub.answer = lambda _path, _query, _headers: Answer({"value": 0.1234567890123456})
    with _client(stub) as client:
        assert client.get("/x") == {"value": "0.1234567890123456"}


def test_only_the_operator_sets_another_address() -> None:
    urls = "openai=https://proxy.example.org/v1, anthropic=http://127.0.0.1:8701"
    assert find_url(urls, "openai") == "https://proxy.example.org/v1"
    assert find_url(urls, "anthropic") == "http://127.0.0.1:8701"
    assert find_url(urls, "cursor") == ""
    assert find_url("", "openai") == ""
    hosts = {provider.base_url for provider in list_providers().values()}
    assert hosts >= {"https://api.openai.com/v1", "https://api.anthropic.com"}


def test_an_error_after_the_first_page_is_no_empty_window(stub: Stub) -> None:
    """Its rows would otherwise stay as they were, as if the provider had none."""
    provider = list_providers()["anthropic"]
    page = Answer({"data": [], "has_more": True, "next_page": "page_2"})
    stub.answer = lambda _path, query, _headers: Answer({}, 400) if "page" in query else page
    [report] = [each for each in provider.reports if each.name == "costs"]
    window = Window(report, datetime(2026, 2, 1, tzinfo=UTC), None)
    with _client(stub, "anthropic") as client, pytest.raises(UnreadableResponseError):
        fetch_window(client, provider, window)
