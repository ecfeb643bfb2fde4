"""Usage in spans: what each instrumentation writes, and numbers that nobody knows."""

import json
import random
from typing import Any

import pytest

from detectors.formats.json_logs.usage.reader import Reading, read_usage
from service.web.otlp import calls
from service.web.otlp.attributes import NAMESPACES
from service.web.otlp.spans import SpanReading as Request
from tests.cases import each_case
from tests.service.otlp.requests import (
    CHAT,
    JSON,
    as_json,
    as_protobuf,
    document,
    read,
    records_of,
    span,
)

CLAUDE = {"gen_ai.provider.name": "anthropic", "gen_ai.response.model": "claude-sonnet-4-6"}
CACHED = {
    "gen_ai.usage.input_tokens": 800,
    "gen_ai.usage.output_tokens": 40,
    "gen_ai.usage.cache_read.input_tokens": 500,
}


def _records(attributes: dict[str, Any], scope: str = "mine") -> list[dict[str, Any]]:
    """Return the records of one span, which both encodings agree on."""
    request = document(span(attributes), scope=scope)
    found = records_of(read(as_protobuf(request)))
    assert records_of(read(as_json(request), JSON)) == found
    return found


def _counts(record: dict[str, Any]) -> dict[str, Any]:
    names = ("prompt", "completion", "cached", "cache_write", "cache_write_1h", "reasoning")
    return {name: record[f"{name}_tokens"] for name in names if f"{name}_tokens" in record}


def test_a_compaction_in_anthropics_own_spans_is_added() -> None:
    (record,) = _records(
        {
            **CLAUDE,
            "gen_ai.usage.input_tokens": 1_600,
            "gen_ai.usage.output_tokens": 40,
            "gen_ai.usage.cache_read.input_tokens": 500,
            "gen_ai.usage.cache_write.input_tokens": 300,
            "anthropic.usage.cache_creation.ephemeral_5m_input_tokens": 0,
            "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 300,
            "anthropic.usage.compaction.input_tokens": 180_000,
            "anthropic.usage.compaction.output_tokens": 3_500,
        },
        scope="com.anthropic.sdk.python",
    )
    assert _counts(record) == {
        **{"prompt": 181_600, "completion": 3_540},
        **{"cached": 500, "cache_write": 300, "cache_write_1h": 300},
    }
    assert "unknown_fields" not in record


@each_case(
    "scope", ["opentelemetry.instrumentation.bedrock", "@traceloop/instrumentation-anthropic"]
)
def test_a_scope_that_leaves_the_cache_out_is_known_in_spite_of_its_own_total(scope: str) -> None:
    (record,) = _records({**CLAUDE, **CACHED, "gen_ai.usage.total_tokens": 840}, scope)
    assert (record["prompt_tokens"], record.get("input_assumed")) == (1_300, None)


@each_case(("total", "prompt", "assumed"), [(1_340, 1_300, None), (840, 800, 1), (None, 800, 1)])
def test_a_providers_total_decides_before_any_convention(
    total: int | None, prompt: int, assumed: int | None
) -> None:
    more = {} if total is None else {"gen_ai.usage.total_tokens": total}
    (record,) = _records({**CLAUDE, **CACHED, **more})
    assert (record["prompt_tokens"], record.get("input_assumed")) == (prompt, assumed)


@each_case(
    "noted",
    [
        {"gen_ai.usage.details.ephemeral_1h_input_tokens": 200},
        {"gen_ai.usage.details.cache_write_1h_tokens": 200},
        {
            "langsmith.metadata.usage_metadata": json.dumps(
                {
                    "input_tokens": 1_000,
                    "output_tokens": 40,
                    "input_token_details": {
                        "cache_read": 100,
                        "ephemeral_5m_input_tokens": 100,
                        "ephemeral_1hr_input_tokens": 200,
                    },
                }
            )
        },
    ],
)
def test_what_is_written_to_the_cache_for_an_hour_is_known(noted: dict[str, Any]) -> None:
    usage = {"input_tokens": 1_000, "output_tokens": 40, "cache_read.input_tokens": 100}
    usage["cache_creation.input_tokens"] = 300
    attributes = {f"gen_ai.usage.{name}": count for name, count in usage.items()}
    calls = read(as_protobuf(document(span({**CLAUDE, **attributes, **noted}))))
    (record,) = records_of(calls)
    assert (record["cache_write_tokens"], record["cache_write_1h_tokens"]) == (300, 200)
    assert calls.unknown == []


def test_langfuses_usage_is_read_in_either_form() -> None:
    named = {
        "langfuse.observation.model.name": "gpt-5.4",
        "langfuse.observation.type": "generation",
    }
    usage = {
        **{"prompt_tokens": 2_006, "completion_tokens": 300, "total_tokens": 2_306},
        "prompt_tokens_details": {"cached_tokens": 1_920},
        "completion_tokens_details": {"reasoning_tokens": 100},
    }
    noted = {"langfuse.observation.usage_details": json.dumps(usage)}
    cost = {"langfuse.observation.cost_details": '{"total": 0.25}'}
    (record,) = _records({**named, **noted, **cost})
    expected = {"prompt": 2_006, "completion": 300, "cached": 1_920, "reasoning": 100}
    assert (_counts(record), record["reported_usd"]) == (expected, 0.25)
    parts = {"input": 86, "output": 200, "input_cached_tokens": 1_920}
    parts |= {"output_reasoning_tokens": 100, "total": 2_306}
    prefix = "langfuse.observation.usage_details"
    (record,) = _records({**named, **{f"{prefix}.{name}": n for name, n in parts.items()}})
    assert _counts(record) == expected
    (record,) = _records({**named, prefix: json.dumps(parts)})
    assert _counts(record) == expected


def test_an_advisor_in_a_copy_is_a_call_of_its_own() -> None:
    step = {"type": "advisor_message", "model": "claude-opus-4-8"}
    usage = {
        **{"input_tokens": 412, "output_tokens": 531, "cache_read_input_tokens": 0},
        "iterations": [{**step, "input_tokens": 82_300, "output_tokens": 1_612}],
    }
    attributes = {**CLAUDE, "gen_ai.usage.raw": json.dumps(usage), "gen_ai.response.id": "msg_1"}
    body = as_protobuf(document(span(attributes)))
    found = records_of(read(body))
    assert [(each["model"], each["request_id"], _counts(each)) for each in found] == [
        ("claude-sonnet-4-6", "msg_1", {"prompt": 412, "completion": 531}),
        ("claude-opus-4-8", "msg_1.2", {"prompt": 82_300, "completion": 1_612}),
    ]
    assert records_of(read(body + body)) == found


@each_case("name", ["gen_ai.usage.cost", "llm.usage.total_cost", "llm.cost.total"])
def test_a_cost_is_a_witness_and_zero_is_none(name: str) -> None:
    (record,) = _records({**CHAT, name: 0.041})
    assert record["reported_usd"] == 0.041
    (record,) = _records({**CHAT, name: 0.0})
    assert "reported_usd" not in record


def test_a_negative_input_is_rejected() -> None:
    request = document(span({**CHAT, "gen_ai.usage.input_tokens": -1}))
    for found in (read(as_protobuf(request)), read(as_json(request), JSON)):
        assert (found.calls, found.rejected) == (0, 1)


@each_case("namespace", NAMESPACES)
@each_case("value", [41_200, 41_200.0, "41200"])
def test_a_number_that_we_dont_know_is_named(namespace: str, value: object) -> None:
    if namespace.startswith("langfuse"):
        chat = {"gen_ai.response.model": "m", f"{namespace}input": 5, f"{namespace}output": 1}
    else:
        chat = CHAT
    (record,) = _records({**chat, f"{namespace}deeper.hologram_units": value})
    assert "deeper.hologram_units" in record["unknown_fields"]
    assert record["unknown_largest"] == 41_200


@each_case(
    "value", [[5, 7], ["CANARY", [0.5]], {"audio": 5}, {"CANARY": {"deep": [1]}}, ["CANARY", {}, 9]]
)
@each_case(
    "name", ["gen_ai.usage.by_modality", "gen_ai.usage.reasoning_tokens", "gen_ai.usage.raw"]
)
def test_numbers_in_a_list_or_a_map_are_named(name: str, value: Any) -> None:
    (record,) = _records({**CHAT, name: value})
    assert record["unknown_fields"] == name
    assert record["unknown_largest"] == 0
    assert "CANARY" not in f"{record}"


def test_what_has_no_number_is_not_named() -> None:
    for value in ([], {}, ["CANARY"], {"tier": "flex"}, [0], True, "CANARY", ""):
        (record,) = _records({**CHAT, "gen_ai.usage.by_modality": value})
        assert "unknown_fields" not in record, value
    for raw in ("", "{}", "null", "None"):  # an empty copy
        (record,) = _records({**CHAT, "gen_ai.usage.raw": raw})
        assert "unknown_fields" not in record, raw


@each_case(
    "raw", ['{"input_tokens": 5, "output_to', "[1]", "{" * 17_000, "usage=CANARY", '{"a": CANARY}']
)
@each_case(
    "name", ["gen_ai.usage.raw", "metadata.usage_object", "langfuse.observation.usage_details"]
)
def test_a_copy_that_cant_be_read_is_named(name: str, raw: str) -> None:
    (record,) = _records({**CHAT, name: raw})
    assert (record["prompt_tokens"], record["unknown_fields"]) == (1_200, name)
    stored = read(as_protobuf(document(span({"gen_ai.response.model": "m", name: raw}))))
    assert (stored.calls, stored.rejected) == (0, 1)
    assert "CANARY" not in f"{record}{stored.unknown}"


def test_an_attribute_too_large_to_be_decoded_is_named() -> None:
    large = ["x"] * 70_000 + [7]
    (record,) = _records({**CHAT, "gen_ai.usage.by_modality": large, "gen_ai.usage.raw": large})
    assert record["unknown_fields"] == "gen_ai.usage.by_modality gen_ai.usage.raw"


@each_case(("own", "copied"), [(3, 9), (9, 3)])
def test_of_two_unknown_numbers_the_larger_is_said(own: int, copied: int) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "gen_ai.usage.hologram": copied}
    attributes = {"gen_ai.usage.hologram": own, "gen_ai.usage.raw": json.dumps(usage)}
    (record,) = _records({**CHAT, **attributes})
    assert (record["unknown_fields"], record["unknown_largest"]) == ("gen_ai.usage.hologram", 9)


@each_case("written", ["0.041", "4.1e-2", "4.1E-02"])
def test_decimals_in_a_text_are_read(written: str) -> None:
    (record,) = _records({**CHAT, "gen_ai.usage.cost": written, "gen_ai.usage.hologram": "1.5"})
    assert record["reported_usd"] == 0.041
    assert record["unknown_fields"] == "gen_ai.usage.hologram"


def test_no_text_of_a_usage_survives() -> None:
    raw = json.dumps({"input_tokens": 5, "output_tokens": 1, "note": "CANARY", "CANARY no": 3})
    attributes = {
        **CLAUDE,
        "gen_ai.usage.raw": raw,
        "gen_ai.usage.note": "CANARY",
        "gen_ai.usage.Dear CANARY": 7,
        "langfuse.observation.usage_details": '{"input": "CANARY"}',
    }
    stored = read(as_protobuf(document(span(attributes))))
    (record,) = records_of(stored)
    assert "CANARY" not in f"{record}{stored.unknown}"
    assert (record["unknown_fields"], record["unknown_largest"]) == ("*", 7)


def test_the_usual_way_is_the_readers_way() -> None:
    randomness = random.Random(4)
    usual = 0
    for _ in range(8_000):
        usage = {
            name: randomness.choice((-1, 0, 0, 3, 9, 9, 12, 12, 40.0, 10**12, 10**13))
            for name in randomness.sample([*calls._USUAL, "gen_ai.usage.cost"], 3)
        } | {"gen_ai.usage.input_tokens": randomness.choice((5, 40))}
        leaves_out = randomness.choice(((), calls._CACHE, None))
        found = calls._read_usual(usage, leaves_out)
        if found is not None:
            usual += 1
            (expected,) = read_usage(usage, dialect="spans", leaves_out=leaves_out)
            for name in Reading.__slots__:
                assert getattr(found, name) == getattr(expected, name), (name, usage)
    assert usual > 20


def test_a_copy_may_be_anything() -> None:
    for raw in ("", "x", "[1]", "{" * 9_000, '{"a":' * 5_000, '{"input_tokens": "CANARY"}', "{}"):
        (record,) = _records({**CHAT, "gen_ai.usage.raw": raw})
        assert record["prompt_tokens"] == 1_200
        assert not read(as_protobuf(document(span({"gen_ai.usage.raw": raw})))).calls


@pytest.mark.parametrize(
    ("more", "extra"),
    [
        ({"gen_ai.usage.total_tokens": 1_285, "gen_ai.usage.reasoning_tokens": 5}, 0),
        ({"gen_ai.usage.cost": 0.1}, 12 * 3),
        ({"gen_ai.usage.hologram": 1, "gen_ai.usage.cost": 0.1}, 12 * 4),
        ({"gen_ai.usage.raw": json.dumps({"input_tokens": 5, "output_tokens": 1})}, 7),
        ({"gen_ai.usage.raw": "'" * 1_000}, 200),
    ],
)
def test_usage_that_is_not_as_usual_counts_toward_the_limit_of_a_request(
    more: dict[str, Any], extra: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the counts of attributes and the characters of a copy, as docs/api/otlp.md says."""
    spent: list[int] = []
    monkeypatch.setattr(Request, "spend", lambda self, cost: spent.append(cost))
    read(as_json(document(span(CHAT))), JSON)
    before = sum(spent)
    spent.clear()
    read(as_json(document(span({**CHAT, **more}))), JSON)
    assert sum(spent) - before - len(more) == extra
