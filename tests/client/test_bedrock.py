"""Amazon Bedrock through boto3: each operation counts once, and other services are let through."""

from __future__ import annotations

import functools
import gc
import io
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import pytest

import tallystick
from tallystick import capture, ending, hooks
from tests.cases import each_case
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
        raw = import_module("urllib3").HTTPResponse(io.BytesIO(body), preload_content=False)
        return made(request.url, status, named, raw)

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


@each_case("name", ASKED)
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


CLAUDE_USAGE: Final[Json] = {
    "input_tokens": 401, "output_tokens": 43, "cache_read_input_tokens": 61,
    "cache_creation_input_tokens": 17,
    "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 13},
}  # fmt: skip
TOOL: Final[Json] = {
    "type": "tool_use",
    "name": "n",
    "input": {"usage": {"input_tokens": 9}, "a": {}},
}
CLAUDE_ANSWER: Final[Json] = {
    "id": "msg_bdrk_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6",
    "content": [{"type": "text", "text": 'canary-7f3a "usage": {"input_tokens": 5}}'}, TOOL],
    "usage": CLAUDE_USAGE,
}  # fmt: skip


def _read_whole(body: Any) -> bytes:
    return bytes(body.read())


def _read_within(body: Any) -> bytes:
    with body as raw:
        return bytes(raw.read())


def _read_partly(body: Any) -> bytes:
    """Read up to the last piece, which is enough to have it all."""
    return b"".join(body.read(64) for _ in range(-(-len(_body()) // 64)))


READERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "read": _read_whole,
    "read, a piece at a time": _read_partly,
    "chunks": lambda body: b"".join(body.iter_chunks(7)),
    "iteration": lambda body: b"".join(body),
    "lines": lambda body: b"".join(body.iter_lines(keepends=True)),
    "list of lines": lambda body: b"".join(body.readlines()),
    "with": _read_within,
    "json.load": lambda body: json.dumps(json.load(body)).encode(),
}


def _body(**more: Any) -> bytes:
    return json.dumps({**CLAUDE_ANSWER, **more}).encode()


@each_case("reader", READERS)
@each_case("where", ["last", "first"])
def test_what_is_written_for_an_hour_is_read_as_the_program_reads_the_body(
    reader: str, where: str
) -> None:
    body = _body()
    if where == "first":
        body = json.dumps({"usage": CLAUDE_USAGE, **CLAUDE_ANSWER}).encode()
    answer = _ask(
        (200, {**HEADERS, "content-length": str(len(body))}, body), "invoke_model", **INVOKE
    )
    assert queued() == []
    assert READERS[reader](answer["body"]) == body
    (record,) = queued()
    assert (record["cache_write_tokens"], record["cache_write_1h_tokens"]) == (17, 13)
    assert (record["prompt_tokens"], record["completion_tokens"]) == (479, 43)
    assert (record["request_id"], record["model"]) == ("req_1", MODEL)
    assert "canary" not in json.dumps(record)
    assert (tallystick.stats()["faults"], tallystick.stats()["unknown_fields"]) == (0, {})
    del answer
    assert queued() == []


@pytest.mark.parametrize("is_stream", [False, True])
def test_what_converse_has_written_for_an_hour_is_in_its_details(is_stream: bool) -> None:
    details = [{"inputTokens": 13, "ttl": "1h"}, {"inputTokens": 4, "ttl": "5m"}]
    usage: Json = {**USAGE, "cacheDetails": details}
    if is_stream:
        body = event_message("metadata", {"usage": usage, "metrics": {"latencyMs": 5}})
        list(_ask((200, {}, body), "converse_stream", **CONVERSE)["stream"])
    else:
        whole = {"output": {"message": SAID}, "stopReason": "end_turn", "usage": usage}
        _ask((200, {}, json.dumps(whole).encode()), "converse", **CONVERSE)
    (record,) = queued()
    assert (record["cache_write_tokens"], record["cache_write_1h_tokens"]) == (17, 13)


@each_case("size", [0, 100, 300])
def test_a_body_that_is_not_read_to_its_end_counts_by_its_headers(size: int) -> None:
    answer = _ask((200, HEADERS, _body()), "invoke_model", **INVOKE)
    if size:
        assert len(answer["body"].read(size)) == size
    answer["body"].close()
    del answer
    (record,) = queued()
    assert (record["prompt_tokens"], record["cache_write_tokens"]) == (479, 17)
    assert "cache_write_1h_tokens" not in record
    assert tallystick.stats()["faults"] == 0


def test_a_body_that_is_still_held_counts_when_the_program_ends() -> None:
    answer = _ask((200, HEADERS, _body()), "invoke_model", **INVOKE)
    current = capture.active
    assert current is not None
    tallystick.flush(0)
    assert queued() == []
    ending.end_open_streams(current)
    (record,) = queued()
    assert record["prompt_tokens"] == 479
    assert answer["body"].read() == _body()
    assert queued() == []


def test_of_a_body_in_pieces_no_text_is_kept() -> None:
    filler = {"type": "text", "text": "canary-7f3a " * 50_000}
    body = _body(content=[filler])
    answer = _ask((200, HEADERS, body), "invoke_model", **INVOKE)
    watch = answer["body"]._raw_stream.read.__self__
    longest = 0
    while answer["body"].read(1_000):
        longest = max(longest, len(watch._rest))
        assert b"canary" not in watch._rest
    assert longest < 1_000
    assert queued()[0]["cache_write_1h_tokens"] == 13


@each_case(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"canary",
        b'{"usage": 5}',
        b'{"usage": {}}',
        b'"usage"}',
        b'{"usage": {"a',
    ],
)
def test_a_body_without_usage_counts_by_its_headers(body: bytes) -> None:
    answer = _ask((200, HEADERS, body), "invoke_model", **INVOKE)
    assert answer["body"].read() == body
    assert [record["prompt_tokens"] for record in queued()] == [479]
    assert tallystick.stats()["faults"] == 0


def test_a_body_of_another_format_is_read_by_the_same_reader() -> None:
    usage = {"inputTokens": 15, "outputTokens": 5, "totalTokens": 20, "hologramTokens": 7}
    reply = (200, {"x-amzn-bedrock-service-tier": "flex"}, json.dumps({"usage": usage}).encode())
    _ask(reply, "invoke_model", modelId="amazon.nova-pro-v1:0", body=b"{}")["body"].read()
    (record,) = queued()
    assert (record["prompt_tokens"], record["service_tier"]) == (15, "flex")
    assert tallystick.stats()["unknown_fields"] == {"hologramTokens": {"calls": 1, "largest": 7}}


def test_what_a_stream_has_written_for_an_hour_is_in_its_events() -> None:
    begun = {**CLAUDE_ANSWER, "content": [], "usage": {**CLAUDE_USAGE, "output_tokens": 1}}
    events: list[Json] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "canary-7f3a"}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 43}},
        {"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS},
    ]
    body = b"".join(event_stream_message(event) for event in events)
    answer = _ask((200, {}, body), "invoke_model_with_response_stream", **INVOKE)
    assert len(list(answer["body"])) == 4
    (record,) = queued()
    assert (record["prompt_tokens"], record["completion_tokens"]) == (479, 43)
    assert record["cache_write_1h_tokens"] == 13
    assert (record["request_id"], record["model"]) == ("req_1", MODEL)
    assert "status" not in record


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


@pytest.mark.parametrize("broken", ["begin_elsewhere", "_tier_of", "_Watch._see", "_count"])
def test_a_part_that_fails_costs_records_and_no_call(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"tallystick.hooks.bedrock.{broken}", None)
    assert _converse() == USAGE
    assert _converse_stream()[-1] == "metadata"
    assert tallystick.stats()["faults"] > 0
