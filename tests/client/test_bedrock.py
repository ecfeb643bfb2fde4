"""Amazon Bedrock through boto3: each operation counts once, and other services are let through."""

from __future__ import annotations

import functools
import gc
import io
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

import pytest

import tallystick
from tallystick import hooks
from tests.client.offline import queued
from tests.client.provider_stub import Json, event_message, event_stream_message

pytestmark = pytest.mark.usefixtures("captured")
MODEL: Final = "anthropic.claude-sonnet-4-6-v1:0"
USAGE: Final = {
    "inputTokens": 401, "outputTokens": 43, "totalTokens": 522,
    "cacheReadInputTokens": 61, "cacheWriteInputTokens": 17,
}  # fmt: skip
METRICS: Final = {
    "inputTokenCount": 401, "outputTokenCount": 43,
    "cacheReadInputTokenCount": 61, "cacheWriteInputTokenCount": 17,
}  # fmt: skip
HEADERS: Final = {
    "x-amzn-bedrock-input-token-count": "401",
    "x-amzn-bedrock-output-token-count": "43",
    "x-amzn-bedrock-cache-read-input-token-count": "61",
    "x-amzn-bedrock-cache-write-input-token-count": "17",
}
SAID: Final = {"role": "assistant", "content": [{"text": "canary-7f3a answered"}]}
CONVERSE: Final[dict[str, Any]] = {
    "modelId": MODEL,
    "messages": [{"role": "user", "content": [{"text": "canary-7f3a asked"}]}],
    "inferenceConfig": {"maxTokens": 64},
}
INVOKE: Final[dict[str, Any]] = {"modelId": MODEL, "body": b'{"max_tokens": 64}'}
Reply = tuple[int, dict[str, str], bytes]


class _Raw(io.BytesIO):
    def stream(self, **options: Any) -> Iterator[bytes]:
        yield self.read()


@functools.cache
def _client(service: str = "bedrock-runtime") -> Any:
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
    return import_module("boto3").client(service, **keys)


def _ask(reply: Reply, operation: str, service: str = "bedrock-runtime", **asked: Any) -> Any:
    """Call a method of the real client, whose connection answers with the reply."""
    client, (status, headers, body) = _client(service), reply

    def answer(request: Any, **context: Any) -> Any:
        named = {"x-amzn-requestid": "req_1", "content-type": "application/json", **headers}
        made = import_module("botocore.awsrequest").AWSResponse
        return made(request.url, status, named, _Raw(body))

    client.meta.events.register("before-send", answer, unique_id="stub")
    try:
        return getattr(client, operation)(**asked)
    finally:
        client.meta.events.unregister("before-send", unique_id="stub")


def _converse() -> Any:
    whole = {"output": {"message": SAID}, "stopReason": "end_turn", "usage": USAGE}
    body = json.dumps({**whole, "metrics": {"latencyMs": 5}}).encode()
    return _ask((200, {}, body), "converse", **CONVERSE)["usage"]


def _converse_events(*, with_usage: bool = True) -> bytes:
    metadata = {"usage": USAGE, "metrics": {"latencyMs": 5}, "serviceTier": {"type": "priority"}}
    events = [
        event_message("messageStart", {"role": "assistant"}),
        event_message("contentBlockDelta", {"delta": {"text": "x"}, "contentBlockIndex": 0}),
        event_message("messageStop", {"stopReason": "end_turn"}),
    ]
    return b"".join([*events, *[event_message("metadata", metadata)] * with_usage])


def _converse_stream() -> Any:
    answer = _ask((200, {}, _converse_events()), "converse_stream", **CONVERSE)
    return [name for event in answer["stream"] for name in event]


def _invoke() -> Any:
    return _ask((200, HEADERS, b"{}"), "invoke_model", **INVOKE)["body"].read()


def _invoke_stream() -> Any:
    events: list[Json] = [{"type": "message_start"}, {"amazon-bedrock-invocationMetrics": METRICS}]
    body = b"".join(event_stream_message(event) for event in events)
    answer = _ask((200, {}, body), "invoke_model_with_response_stream", **INVOKE)
    return len(list(answer["body"]))


ASKED: Final[dict[str, Callable[[], Any]]] = {
    "converse": _converse,
    "converse stream": _converse_stream,
    "invoke": _invoke,
    "invoke stream": _invoke_stream,
}


@pytest.fixture(autouse=True)
def _hooked() -> None:
    hooks.install()


@pytest.mark.parametrize("name", ASKED)
def test_an_operation_counts_once(name: str) -> None:
    assert ASKED[name]()
    (record,) = queued()
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
    assert [record[name] for name in names] == [401 + 61 + 17, 43, 61, 17]
    assert (record["provider"], record["model"]) == ("aws", MODEL)
    assert (record["endpoint"], record["request_id"]) == (name.partition(" ")[0], "req_1")
    assert record.get("declared_max_tokens") == (64 if "converse" in name else None)
    assert record.get("service_tier") == ("priority" if name == "converse stream" else None)
    assert "canary" not in json.dumps(record)
    assert tallystick.stats()["faults"] == 0


def test_the_number_of_an_account_does_not_leave() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-v1:0"
    _ask((200, HEADERS, b"{}"), "invoke_model", **{**INVOKE, "modelId": arn})
    (record,) = queued()
    assert record["model"] == "us.anthropic.claude-v1:0"


def test_an_embedding_has_no_output() -> None:
    headers = {"x-amzn-bedrock-input-token-count": "9"}
    _ask((200, headers, b"{}"), "invoke_model", **INVOKE)
    (record,) = queued()
    assert (record["prompt_tokens"], record["completion_tokens"]) == (9, 0)


def test_a_stream_that_is_left_is_named_in_the_counters() -> None:
    answer = _ask((200, {}, _converse_events()), "converse_stream", **CONVERSE)
    assert "messageStart" in next(iter(answer["stream"]))
    del answer
    gc.collect()  # the streams of botocore refer to themselves
    assert tallystick.stats()["uncaptured"] == {"converse": 1}
    assert tallystick.stats()["without_usage"] == 1
    _ask((200, {}, b"{}"), "invoke_model", **INVOKE)
    assert tallystick.stats()["uncaptured"] == {"converse": 1, "invoke": 1}
    assert queued() == []


def test_errors_are_botocores_own_and_make_no_record() -> None:
    exceptions = import_module("botocore.exceptions")
    with pytest.raises(exceptions.ClientError):
        _ask((400, {}, b'{"message": "no"}'), "converse", **CONVERSE)
    headers = {":message-type": "exception", ":exception-type": "throttlingException"}
    body = _converse_events(with_usage=False) + event_message("", {"message": "slow"}, headers)
    answer = _ask((200, {}, body), "converse_stream", **CONVERSE)
    with pytest.raises(exceptions.EventStreamError):
        list(answer["stream"])
    assert queued() == []
    assert tallystick.stats()["faults"] == 0


def test_other_services_are_let_through() -> None:
    assert _ask((200, {}, b'{"TableNames": []}'), "list_tables", "dynamodb")["TableNames"] == []
    assert queued() == []
    assert tallystick.stats()["uncaptured"] == {}


@pytest.mark.parametrize("broken", ["_begin", "_end_or_follow", "_Watch._see", "_count"])
def test_a_part_that_fails_costs_records_and_no_call(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"tallystick.hooks.bedrock.{broken}", None)
    assert _converse() == USAGE
    assert _converse_stream()[-1] == "metadata"
    assert tallystick.stats()["faults"] > 0
