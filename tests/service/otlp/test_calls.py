"""A span as a record: every dialect, what input tokens are, labels, and what is no call."""

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from service.errors import BadRequestError, PayloadTooLargeError
from service.web.otlp import json_spans, spans
from service.web.otlp.answers import describe
from service.web.otlp.attributes import CACHED, INPUT, MODEL, OUTPUT, PROVIDER, named
from service.web.otlp.content import has_text
from service.web.otlp.spans import SPAN_COST
from tests.adversarial.spans import field
from tests.cases import each_case
from tests.service.otlp.requests import (
    CHAT,
    JSON,
    PROTOBUF,
    as_json,
    as_protobuf,
    attribute,
    document,
    read,
    records_of,
    span,
)

MODEL_ONLY = {"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-sonnet-4-6"}


def _record(attributes: dict[str, Any], scope: str = "mine", **fields: Any) -> dict[str, Any]:
    """The record of one span, which both encodings agree on."""
    request = document(span(attributes, **fields), scope=scope)
    (found,) = records_of(read(as_protobuf(request)))
    assert records_of(read(as_json(request), JSON)) == [found]
    return found


def test_every_spelling_of_an_attribute_is_read() -> None:
    counts = (
        (INPUT, "prompt_tokens"),
        (OUTPUT, "completion_tokens"),
        (CACHED, "cached_tokens"),
        (named("cache_write_tokens"), "cache_write_tokens"),
        (named("output_reasoning_tokens"), "reasoning_tokens"),
    )
    for names, counted in counts:
        known = MODEL_ONLY if names in (INPUT, OUTPUT) else CHAT
        for name in names:
            assert _record({**known, name: 40})[counted] == 40, name
    usage = {"gen_ai.usage.input_tokens": 5}
    for name in MODEL:
        record = _record({**usage, name: "gpt-4o"})
        assert (record["model"], record["provider"]) == ("gpt-4o", "unknown")
    for name in PROVIDER:
        record = _record({**usage, "gen_ai.request.model": "m", name: "OpenAI"})
        assert record["provider"] == "openai", name


@each_case(
    ("named", "provider"),
    [
        ("azure.ai.openai", "azure"),
        ("aws.bedrock", "aws"),
        ("gcp.vertex_ai", "google"),
        ("gcp.gemini", "google"),
        ("openai.chat", "openai"),
        ("openai.responses", "openai"),
        ("anthropic.messages", "anthropic"),
        ("amazon-bedrock", "aws"),
        ("google.generative-ai", "google"),
        ("x_ai", "x-ai"),
        ("mistral_ai", "mistral"),
        ("not a provider", "unknown"),
    ],
)
def test_providers_have_one_name(named: str, provider: str) -> None:
    assert _record({**CHAT, "gen_ai.provider.name": named})["provider"] == provider


def test_the_response_decides_the_model_and_names_the_call() -> None:
    named = {"gen_ai.request.model": "gpt-4o", "gen_ai.response.id": "chatcmpl-9"}
    record = _record({**CHAT, **named})
    assert (record["model"], record["request_id"]) == ("gpt-4o-mini", "chatcmpl-9")
    each = span(CHAT)
    (found,) = records_of(read(as_protobuf(document(each))))
    assert found["request_id"] == f"{each['traceId']}-{each['spanId']}"


def test_labels_come_from_the_span_or_its_resource() -> None:
    more = {
        "gen_ai.conversation.id": "chat-7",
        "gen_ai.request.max_tokens": 400,
        "gen_ai.openai.response.service_tier": "flex",
        "gen_ai.usage.output_tokens": 85,
        "gen_ai.usage.reasoning_tokens": 90,  # more than the output, so beside it
    }
    request = document(
        span({**CHAT, **more}, status={"code": 2}),
        service_name="bot",
        deployment_environment_name="live",
    )
    (record,) = records_of(read(as_protobuf(request)))
    expected = {
        "tag": "bot",
        "environment": "live",
        "session_id": "chat-7",
        "declared_max_tokens": 400,
        "service_tier": "flex",
        "completion_tokens": 175,
        "reasoning_tokens": 90,
        "status": "error",
    }
    assert {name: record[name] for name in expected} == expected


@each_case("label", ["x" * 201, "a\nb", "\x85", ""])
def test_a_label_that_no_record_may_have_is_dropped(label: str) -> None:
    record = _record({**CHAT, "gen_ai.conversation.id": label, "service.name": label})
    assert "session_id" not in record
    assert "tag" not in record


@each_case(
    ("scope", "provider", "cached", "expected"),
    [
        ("mine", "openai", 900, 1_000),  # counts them in
        ("mine", "anthropic", 900, 1_000),  # may count them in
        ("mine", "anthropic", 1_001, 2_001),  # can't count them in
        ("openlit.instrumentation.anthropic", "anthropic", 900, 1_900),
        ("com.anthropic.sdk.python", "anthropic", 900, 1_000),
    ],
)
def test_input_tokens_include_cached_ones(
    scope: str, provider: str, cached: int, expected: int
) -> None:
    counts = {"gen_ai.usage.input_tokens": 1_000, "gen_ai.usage.cache_read.input_tokens": cached}
    record = _record({**MODEL_ONLY, "gen_ai.provider.name": provider, **counts}, scope=scope)
    assert (record["prompt_tokens"], record["cached_tokens"]) == (expected, cached)


def test_the_ai_sdk_says_how_many_tokens_are_not_cached() -> None:
    counts = {
        "ai.usage.inputTokens": 10,
        "ai.usage.inputTokenDetails.noCacheTokens": 10,
        "ai.usage.inputTokenDetails.cacheReadTokens": 6,
    }
    assert _record({**MODEL_ONLY, **counts})["prompt_tokens"] == 16
    # Pydantic ais sums are those of an agent.
    sums: dict[str, Any] = {"gen_ai.operation.name": "invoke_agent", "model_name": "gpt-5.4"}
    usage = {"input_tokens": 2_000, "output_tokens": 100, "cache_read.input_tokens": 1_200}
    sums |= {f"gen_ai.aggregated_usage.{name}": count for name, count in usage.items()}
    record = _record(sums)
    assert (record["prompt_tokens"], record["cached_tokens"]) == (2_000, 1_200)


@each_case(
    ("scope", "version", "provider", "counts", "assumed"),
    [
        ("mine", "1", "anthropic", {"gen_ai.usage.cache_read.input_tokens": 5}, True),
        ("mine", "1", "openai", {"gen_ai.usage.cache_read.input_tokens": 5}, False),
        ("mine", "1", "anthropic", {}, False),
        ("pydantic-ai", "2.68.0", "anthropic", {CACHED[0]: 5}, False),
        ("pydantic-ai", "1.0.0", "anthropic", {CACHED[0]: 5}, True),
        ("pydantic-ai", "a fork", "anthropic", {CACHED[0]: 5}, True),
    ],
)
def test_what_nobody_says_is_known_to_be_assumed(
    scope: str, version: str, provider: str, counts: dict[str, int], assumed: bool
) -> None:
    values = {
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 9,
        **counts,
    }
    request = document(span(values), scope=scope, version=version)
    calls = read(as_protobuf(request))
    (record,) = records_of(calls)
    assert (record.get("input_assumed") == 1, calls.assumed) == (assumed, int(assumed))


def test_counts_inside_a_copy_of_the_usage_are_read() -> None:
    raw = "{'prompt_tokens': 1200, 'prompt_tokens_details': {'cached_tokens': 700}, 'x': 'y'}"
    assert _record({**CHAT, "metadata.usage_object": raw})["cached_tokens"] == 700
    raw = '{"cache_creation": {"ephemeral_1h_input_tokens": 30}, "cache_creation_input_tokens":40}'
    record = _record({**CHAT, "gen_ai.usage.raw": raw})
    assert (record["cache_write_tokens"], record["cache_write_1h_tokens"]) == (40, 30)


def test_audio_and_images_are_parts_of_their_totals() -> None:
    parts = {
        "gen_ai.usage.audio.input_tokens": 1_000,
        "gen_ai.usage.image.input_tokens": 900,
        "gen_ai.usage.audio.output_tokens": 100,
        "gen_ai.usage.image.output_tokens": 5,
    }
    record = _record({**CHAT, **parts})
    assert (record["audio_prompt_tokens"], record["image_prompt_tokens"]) == (1_000, 200)
    # More audio than output tokens can't be in them.
    assert (record["completion_tokens"], record["audio_completion_tokens"]) == (185, 100)
    assert record["image_completion_tokens"] == 5


@each_case(
    "attributes",
    [
        {"gen_ai.operation.name": "invoke_agent"},
        {"openinference.span.kind": "AGENT"},
        {"openinference.span.kind": "CHAIN"},
        {"ai.operationId": "ai.generateText"},
        {"ai.operationId": "ai.streamObject"},
    ],
)
def test_sums_over_several_calls_count_only_where_no_call_inside_does(
    attributes: dict[str, str],
) -> None:
    agent = span({**CHAT, "gen_ai.usage.input_tokens": 2_400, **attributes})
    inside = [span(CHAT, traceId=agent["traceId"], parentSpanId=agent["spanId"]) for _ in range(2)]
    alone = read(as_protobuf(document(agent)))
    assert [each["prompt_tokens"] for each in records_of(alone)] == [2_400]
    assert list(describe(alone)) == [
        "The usage of 1 span around calls counts only if no call inside has any."
    ]
    whole = read(as_protobuf(document(*inside, agent)))
    assert [each["prompt_tokens"] for each in records_of(whole)] == [1_200, 1_200]
    assert list(describe(whole)) == [
        "The usage of 1 span doesn't count: other spans of the same calls have it."
    ]


def test_the_last_part_of_the_ai_sdks_names_is_a_call() -> None:
    for leaf in ("ai.generateText.doGenerate", "ai.embed.doEmbed"):
        calls = read(as_protobuf(document(span({**CHAT, "ai.operationId": leaf}))))
        assert (calls.calls, list(describe(calls))) == (1, [])


@each_case("kind", [PROTOBUF, JSON])
def test_usage_that_does_not_count_is_always_named(kind: str) -> None:
    encode = {PROTOBUF: as_protobuf, JSON: as_json}[kind]

    def said(attributes: dict[str, Any], calls: int = 0) -> str:
        found = read(encode(document(span(attributes))), kind)
        assert found.calls == calls
        return " ".join(describe(found))

    assert "attributes that we don't read: gen_ai.usage.total_tokens was not" in said(
        {"gen_ai.usage.total_tokens": 9, "gen_ai.request.model": "m"}
    )
    assert "that we don't read: acme.promptTokens, acme.total_token_count was not" in said(
        {"acme.promptTokens": 9, "acme.total_token_count": 4.0, "acme.text": "canary"}
    )
    assert said({"Dear canary tokens": 9, "dear canary, input_tokens": 5}) == (
        "1 span with tokens only in attributes that we don't read was not counted."
    )
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 9}
    assert "1 span with the usage of calls, but without a model, was not counted." in said(agent)
    assert "without a model" in said({"gen_ai.usage.input_tokens": 9})
    # Of a call that counts, of no size, or of another kind.
    assert said({**CHAT, "acme.promptTokens": 9}, calls=1) == ""
    assert said({"acme.promptTokens": 0, "auth.tokens": 5, "acme.max_tokens": 5}) == ""


@each_case(
    ("value", "is_text"),
    [
        ("[REDACTED]", False),
        ("<redacted>", False),
        ("***", False),
        ("redacted-by-litellm", False),
        ("[Filtered]", False),
        ("<fully masked due to failed mask function>", False),
        ("[Scrubbed due to 'password']", False),
        ('"[REDACTED]"', False),
        ('[{"role":"user","content":"[REDACTED]"}]', False),
        ('[{"role":"user","content":""},{"role":"assistant","content":null}]', False),
        ('[{"role":"user","content":[{"type":"text","text":"***"}]}]', False),
        ('[{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"add"}}]}]', False),
        ('{"messages":[]}', False),
        ('[{"role":"user","content":"hello"}]', True),
        ('[{"role":"user","content":["hello"]}]', True),
        ('[{"role":"user","content":"[REDACTED] and the rest"}]', True),
        ("[REDACTED] and the rest", True),
        ("Is my address redacted?", True),
        ("?", True),
        ("\N{THUMBS UP SIGN}", True),
        ("x", True),
        ('[{"role":"user","content":7}]', True),
    ],
)
def test_marks_of_redaction_are_no_text(value: str, is_text: bool) -> None:
    assert has_text(value) is is_text


@each_case(
    "name",
    [
        *("gen_ai.tool.definitions", "gen_ai.tool.description", "llm.tools.0.tool.json_schema"),
        *("llm.request.functions.0.parameters", "ai.prompt.tools", "ai.prompt.toolChoice"),
        *("ai.schema", "gen_ai.request.available_tools", "llm.input_messages.0.message.role"),
    ],
)
def test_what_is_nobodys_prompt_is_dropped_unread(name: str) -> None:
    definitions = '[{"type":"function","name":"add","description":"Add the canary numbers."}]'
    calls = read(as_protobuf(document(span({**CHAT, name: definitions}))))
    assert (calls.calls, list(describe(calls))) == (1, [])
    assert b"canary" not in zlib.decompress(calls.lines)


def test_text_costs_its_span_and_no_other() -> None:
    """The call of an agent whose text is rejected leaves the usage to the agent's own span."""
    agent = span({**CHAT, "gen_ai.operation.name": "invoke_agent"})
    below = {"traceId": agent["traceId"], "parentSpanId": agent["spanId"]}
    text = {"gen_ai.input.messages": "canary", "input.value": "canary"}
    request = document(span({**CHAT, **text}, **below), agent, span(CHAT), scope="pydantic-ai")
    for body, kind in ((as_protobuf(request), PROTOBUF), (as_json(request), JSON)):
        calls = read(body, kind)
        assert len(records_of(calls)) == 2
        message = next(describe(calls))
        assert message == (
            "1 span of pydantic-ai was rejected because of text in gen_ai.input.messages,"
            " input.value: turn it off with InstrumentationSettings(include_content=False), or drop"
            " the attributes in an OpenTelemetry Collector."
        )


def test_text_of_a_resource_is_that_of_its_spans() -> None:
    request = document(span(CHAT), span({}), input_value="canary")
    other = document(span(CHAT))
    request["resourceSpans"] += other["resourceSpans"]
    for body, kind in ((as_protobuf(request), PROTOBUF), (as_json(request), JSON)):
        calls = read(body, kind)
        assert calls.calls == 1
        assert calls.texts == {None: (2, {"input.value"})}


@each_case("value", ["12", 12.0, "12x", -5, 1e300, True])
def test_counts_of_other_types_are_read_or_nothing(value: object) -> None:
    record = _record({**CHAT, "gen_ai.request.max_tokens": value})
    expected = {"12": 12, 12.0: 12}.get(value)
    assert record.get("declared_max_tokens") == expected


@each_case("end", ["99999999999999999999", 2**64, -1])
def test_a_time_that_protobuf_cannot_hold_is_missing_in_json(end: int | str) -> None:
    request = document(span(CHAT, endTimeUnixNano=end))
    (record,) = records_of(read(as_json(request), JSON))
    assert (record["prompt_tokens"], record.get("latency_ms")) == (1200, None)


def test_attributes_with_several_values_are_skipped_in_both_encodings() -> None:
    expected = _record(CHAT)
    found = _record({**CHAT, "gen_ai.response.finish_reasons": ["stop"]})
    assert found.pop("request_id") != expected.pop("request_id")
    assert found == expected


@each_case(
    ("value", "is_text"),
    [
        ({"stringValue": "Hello"}, True),
        ({"stringValue": ""}, False),
        ({"stringValue": "__REDACTED__"}, False),
        ({"bytesValue": "aGVsbG8="}, True),
        ({"bytesValue": ""}, False),
        ({"intValue": "5"}, False),
        ({"arrayValue": {"values": [{"stringValue": "Hello"}]}}, True),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"bytesValue": "aGk="}}]}}, True),
        ({"kvlistValue": {"values": [{"key": "stringValue", "value": {}}]}}, False),
    ],
)
@each_case("within", ["arrayValue", "kvlistValue"])
def test_text_among_several_values_is_rejected_in_both_encodings(
    value: dict[str, Any], is_text: bool, within: str
) -> None:
    several = value if within == "arrayValue" else {"key": "k", "value": value}
    request = document(span(CHAT))
    each = request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    each["attributes"].append({"key": "input.value", "value": {within: {"values": [several]}}})
    for body, kind in ((as_protobuf(request), PROTOBUF), (as_json(request), JSON)):
        calls = read(body, kind)
        assert calls.calls == (not is_text)
        assert calls.texts == ({None: (1, {"input.value"})} if is_text else {})


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_both_encodings_have_the_same_limit_of_spans(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "MAX_COST", 50 * SPAN_COST)
    empty = {PROTOBUF: (b"\x12\x00", b""), JSON: (b"{}", b",")}[kind]

    def body(spans: int) -> bytes:
        joined = empty[1].join([empty[0]] * spans)
        if kind == JSON:
            return b'{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}' % joined
        return field(1, field(2, joined))

    assert read(body(48), kind).calls == 0
    with pytest.raises(PayloadTooLargeError, match="too many spans"):
        read(body(49), kind)


@pytest.mark.parametrize(
    ("of", "cost"),
    [
        (lambda many: {"attributes": [attribute("n", "")] * many}, 0),
        (lambda many: {"attributes": [attribute("input.value", [""] * many)]}, 2),
        (lambda many: {"events": [{"name": "e", "attributes": [attribute("n", "")] * many}]}, 3),
        (lambda many: {"events": [{"name": "e", "attributes": []}] * (many // 3)}, 0),
    ],
    ids=["attributes", "values", "attributes of an event", "events"],
)
@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_everything_in_a_span_counts(
    kind: str, of: Callable[[int], dict[str, Any]], cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The span and what is around it; of protobuf, the resource and the scope, too.
    parts = {PROTOBUF: 5, JSON: 3}[kind]
    monkeypatch.setattr(spans, "MAX_COST", parts * SPAN_COST + cost + 30)
    encode = {PROTOBUF: as_protobuf, JSON: as_json}[kind]
    assert read(encode(document(span({}) | of(30))), kind).calls == 0
    with pytest.raises(PayloadTooLargeError):
        read(encode(document(span({}) | of(36))), kind)


def test_json_has_no_limit_of_the_attributes_of_all_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_spans, "_MOST_OBJECTS", 100)
    assert read(as_json(document(*(span(CHAT) for _ in range(40)))), JSON).calls == 40


@each_case(
    "attributes",
    [
        b"[%s{}]" % (b"{}," * 200_000),
        b'[{"value":{"arrayValue":{"values":[%s{}]}}}]' % (b"{}," * 200_000),
    ],
)
@each_case("of", ["span", "resource"])
def test_a_part_of_json_with_too_many_objects_is_rejected(attributes: bytes, of: str) -> None:
    part = b'{"attributes":%s}' % attributes
    body = {
        "span": b'{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}' % part,
        "resource": b'{"resourceSpans":[{"resource":%s}]}' % part,
    }[of]
    with pytest.raises(PayloadTooLargeError):
        read(body, JSON)


def test_json_that_is_nested_too_deeply_is_invalid() -> None:
    value = b'{"arrayValue":{"values":[' * 5_000 + b"]}}" * 5_000
    span = b'{"attributes":[{"key":"input.value","value":%s}]}' % value
    with pytest.raises(BadRequestError):
        read(b'{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}' % span, JSON)
