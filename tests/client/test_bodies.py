"""Odd answers: whatever a server says, the caller gets what it would get without the client.

And only whole, plausible counts make a record.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

import tallystick
from tallystick import capture
from tests.cases import data_of
from tests.client import offline, provider_stub
from tests.client.offline import queued, say
from tests.client.styles import ASKED, CHAT, CLAUDE, STREAMED
from tests.lazily import anthropic
from tests.worker.support.promises import sampled

TABLES = data_of(__file__)

pytestmark = pytest.mark.usefixtures("captured")

USAGES: list[Any] = TABLES["usages"]
ODD_DETAILS: list[Any] = [None, "x", 7, [], [1], {}, {"cached_tokens": "x"}, {"cached_tokens": -1}]
BODIES: list[Any] = TABLES["bodies"]
CASES = [
    *({**provider_stub.completion(), "usage": usage} for usage in USAGES),
    *(
        {
            **provider_stub.completion(),
            "usage": {**provider_stub.CHAT_USAGE, "prompt_tokens_details": details},
        }
        for details in ODD_DETAILS
    ),
    *BODIES,
]
RAW = [b"", b"{", b"null", b"\xff\xfe", b"<html>", b'"text"', b"[" * 200 + b"]" * 200, b"NaN"]
MODELS: list[Any] = [None, "", 5, [], {}, "m" * 300, "bad\x00name\n", "\ud800", "  "]


def _outcome(ask: Callable[[], Any]) -> str:
    """What a caller sees: the type and the value, of the result or of the exception."""
    try:
        result = ask()
        items = list(result) if hasattr(type(result), "__stream__") else result
    except Exception as error:
        return f"{type(error).__qualname__}: {error}"
    return f"{type(result).__qualname__}: {items!r}"


def _asks(handler: offline.Handler) -> list[Callable[[], Any]]:
    client = offline.openai_client.__wrapped__(handler)
    claude = offline.anthropic_client.__wrapped__(handler)
    return [
        lambda: client.chat.completions.create(**CHAT),
        lambda: client.chat.completions.with_raw_response.create(**CHAT).parse(),
        lambda: client.responses.create(**ASKED),
        lambda: client.embeddings.create(model="m", input="x"),
        lambda: client.post("/chat/completions", cast_to=object, body=CHAT),
        lambda: claude.messages.create(**CLAUDE),
    ]


def _compare(asks: Callable[[], list[Callable[[], Any]]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same calls while the client is off and on."""
    with monkeypatch.context() as off:
        off.setattr(capture, "active", None)
        expected = [_outcome(ask) for ask in asks()]
    assert [_outcome(ask) for ask in asks()] == expected
    assert tallystick.stats()["faults"] == 0


@pytest.mark.parametrize("body", sampled(CASES, 3, list(map(str, range(len(CASES))))))
def test_an_unusual_response_reaches_its_caller(body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _compare(lambda: _asks(lambda request: say(body)), monkeypatch)
    for record in queued():
        assert record["prompt_tokens"] >= 0
        assert set(record) <= {
            *("ts", "provider", "model", "prompt_tokens", "completion_tokens", "cached_tokens"),
            *("cache_write_tokens", "latency_ms", "declared_max_tokens", "endpoint", "request_id"),
            *("reasoning_tokens", "audio_prompt_tokens", "audio_completion_tokens"),
            *("cache_write_1h_tokens", "web_searches", "service_tier", "region"),
        }


@pytest.mark.parametrize("kind", ["application/json", "text/html"])
@pytest.mark.parametrize("content", RAW, ids=range(len(RAW)))
def test_a_response_that_is_not_json_reaches_its_caller(
    content: bytes, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"content-type": kind}
    _compare(
        lambda: _asks(lambda request: httpx2.Response(200, content=content, headers=headers)),
        monkeypatch,
    )
    assert queued() == []


@pytest.mark.parametrize("usage", sampled(USAGES, 3, list(map(str, range(len(USAGES))))))
def test_an_unusual_event_reaches_its_caller(usage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events = copy.deepcopy(provider_stub.chat_events(with_usage=True))
    events[-1][1]["usage"] = usage
    odd = [*events, ("", {"response": usage}), ("", {"message": usage}), ("", {"usage": usage})]
    client = offline.openai_client.__wrapped__(lambda request: offline.stream(odd))
    _compare(lambda: [lambda: client.chat.completions.create(**STREAMED)], monkeypatch)
    assert queued() == []


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_an_unusual_model_is_cleaned_or_replaced_by_the_requested_model(model: Any) -> None:
    body = json.dumps({**provider_stub.completion(), "model": model}).encode()
    headers = {"content-type": "application/json"}
    client = offline.openai_client.__wrapped__(
        lambda request: httpx2.Response(200, content=body, headers=headers)
    )
    client.chat.completions.create(**CHAT)
    (record,) = queued()
    is_text = isinstance(model, str) and model and model != "\ud800"
    assert record["model"] == (model.translate({0: None, 10: None})[:200] if is_text else "gpt-4o")


def test_no_usage_makes_no_record_and_is_counted() -> None:
    client = offline.openai_client.__wrapped__(
        lambda request: say({**provider_stub.completion(), "usage": None})
    )
    client.chat.completions.create(**CHAT)
    assert queued() == []
    assert tallystick.stats()["without_usage"] == 1
    assert tallystick.stats()["uncaptured"] == {"chat/completions": 1}


def test_an_endpoint_that_costs_no_tokens_is_not_missed() -> None:
    moderation = {"id": "modr-1", "model": "omni-moderation-latest", "results": []}
    client = offline.openai_client.__wrapped__(lambda request: say(moderation))
    client.moderations.create(input="x")
    assert queued() == []
    assert tallystick.stats()["without_usage"] == 0
    assert tallystick.stats()["uncaptured"] == {"moderations": 1}


def test_whole_floats_count() -> None:
    usage = {"prompt_tokens": 101.0, "completion_tokens": 23.0}
    client = offline.openai_client.__wrapped__(
        lambda request: say({**provider_stub.completion(), "usage": usage})
    )
    client.chat.completions.create(**CHAT)
    (record,) = queued()
    assert (record["prompt_tokens"], record["completion_tokens"]) == (101, 23)


def test_an_empty_usage_at_the_end_does_not_remove_earlier_counts() -> None:
    events = [*provider_stub.chat_events(with_usage=True), ("", {"usage": {}}), ("", {"usage": 5})]
    client = offline.openai_client.__wrapped__(lambda request: offline.stream(events))
    list(client.chat.completions.create(**STREAMED))
    (record,) = queued()
    assert (record["prompt_tokens"], record["completion_tokens"]) == (101, 23)


def test_a_stream_that_fails_in_the_middle_raises_the_same_error_and_counts_what_it_received() -> (
    None
):
    events = provider_stub.messages_events()[:5]
    events.append(("error", {"type": "error", "error": {"type": "overloaded_error"}}))
    client = offline.anthropic_client.__wrapped__(lambda request: offline.stream(events))
    with pytest.raises(anthropic.APIStatusError):
        list(client.messages.create(**CLAUDE, stream=True))
    (record,) = queued()
    assert (record["prompt_tokens"], record["completion_tokens"]) == (479, 1)
