"""What the second version of the record adds: parts of counts, tiers, sessions, longer hashes."""

import hashlib
import hmac
import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

import tallystick
from detectors.contract import LEVEL_DIGITS, LEVELS, RECORD_V2_FIELDS
from detectors.formats import V1, V2, decode_batch
from tallystick.calls import begin
from tallystick.reading import prompts
from tallystick.reading.prompts import hash_prefixes
from tests.cases import data_of, each_case
from tests.client.collector import Collector, refusing_dsn
from tests.client.offline import capturing, queued

V2_PATH = "/api/v2/ingest"
TABLES = data_of(__file__)
WHOLE: dict[str, Any] = TABLES["whole"]


def capture(library: str, *answers: dict[str, Any], url: str = "/chat/completions") -> Any:
    """Return the record of a call with these answers of the provider."""
    options = SimpleNamespace(method="post", url=url, json_data={"model": "m"})
    call = begin(library, object(), options)
    assert call is not None
    for answer in answers:
        call.see(answer)
    call.end()
    (record,) = queued()
    assert len(decode_batch(json.dumps({"records": [record]}).encode(), V2)) == 1
    return record


def added(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that only the second version has."""
    first = {"ts", "provider", "model", "latency_ms", "endpoint", "declared_max_tokens", "tag"}
    counts = {"prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"}
    return {name: value for name, value in record.items() if name not in first | counts}


@pytest.mark.usefixtures("captured")
def test_every_field_can_be_recorded() -> None:
    moment = datetime(2026, 10, 5, 11, 30, 0, 250_000, timezone(timedelta(hours=2)))
    assert tallystick.record(**WHOLE | {"latency_ms": 12.3456}, ts=moment)
    (record,) = queued()
    assert record == WHOLE | {"latency_ms": 12.346, "ts": "2026-10-05T09:30:00.250000Z"}
    assert record.keys() == set(RECORD_V2_FIELDS)
    assert len(decode_batch(json.dumps({"records": [record]}).encode(), V2)) == 1
    with pytest.raises(TypeError):
        tallystick.record(**WHOLE, messages=["CANARY"])  # type: ignore[call-arg]


@pytest.mark.usefixtures("captured")
@each_case(("field", "value", "kept"), [(*row, None)[:3] for row in TABLES["cut"]])
def test_a_value_that_the_service_would_reject_is_cut_or_dropped(
    field: str, value: object, kept: object
) -> None:
    assert tallystick.record(**{**WHOLE, field: value})
    (record,) = queued()
    assert record.get(field) == kept
    assert len(decode_batch(json.dumps({"records": [record]}).encode(), V2)) == 1


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("tier", [["flex"], {"a": 1}, 5, "default", None])
def test_an_odd_tier_does_no_harm(tier: object) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "service_tier": tier}
    assert added(capture("openai", {"model": "m", "usage": usage, "service_tier": tier})) == {}
    usage = {"input_tokens": 1, "output_tokens": 1, "service_tier": tier, "inference_geo": tier}
    found = added(capture("anthropic", {"model": "m", "usage": usage}, url="/messages"))
    assert found == ({"region": "default"} if tier == "default" else {})
    assert tallystick.stats()["faults"] == 0


@each_case("length", [0, 4_096, 5_792, 5_793, 16_384, 65_535, 262_144, 300_000])
def test_every_level_is_hashed_that_the_prompt_reaches(length: int) -> None:
    text = "aé" * (length // 2) + "x" * (length % 2)
    parts = [text[:7_000], text[7_001:]] if length > 7_001 else [text]
    found = hash_prefixes({"messages": [{"content": part} for part in parts]})
    assert found == _hashes("\n".join(parts))


def _hashes(text: str, key: bytes | None = None) -> tuple[str, tuple[str, ...]]:
    found = []
    for size in LEVELS:
        if size == LEVELS[0] or len(text) >= size:
            start = text[:size].encode()
            digest = hmac.new(key, start, "sha256") if key else hashlib.sha256(start)
            found.append(digest.hexdigest())
    return found[0], tuple(each[:16] for each in found)


def test_the_client_has_the_levels_of_the_contract() -> None:
    assert (prompts.LEVELS, prompts.LEVEL_DIGITS) == (LEVELS, LEVEL_DIGITS)


@each_case("length", [0, 1_023, 1_024, 16_384])
@each_case(
    ("options", "key"),
    [
        ({"prefix_hash": True}, None),
        ({"prefix_hash_key": "secret"}, b"secret"),
        ({"prefix_hash": True, "prefix_hash_key": b"\xff"}, b"\xff"),
        ({"prefix_hash": True, "prefix_hash_key": ""}, b""),
        ({"prefix_hash": True, "prefix_hash_key": 5}, b""),
        ({"prefix_hash": False}, b""),
    ],
)
def test_a_prompt_that_can_be_guessed_is_hashed_with_a_key_only(
    options: dict[str, Any], key: bytes | None, length: int
) -> None:
    prompt = "é" * length
    expected: dict[str, Any] = {}
    if key != b"" and (key or length >= 1_024):
        expected["prefix_hash"], levels = _hashes(prompt, key)
        expected["prefix_hashes"] = list(levels)
    with capturing(refusing_dsn(), **options):
        asked = {"model": "m", "messages": [{"content": prompt}]}
        call = begin(
            "openai", object(), SimpleNamespace(method="post", url="/responses", json_data=asked)
        )
        assert call is not None
        call.see({"model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}})
        call.end()
        (record,) = queued()
        assert tallystick.stats()["faults"] == 0
    assert {name: record[name] for name in record if "prefix" in name} == expected


@pytest.mark.usefixtures("captured")
def test_a_session_is_that_of_the_innermost_block_and_no_tag() -> None:
    usage = {"model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 1}}

    @tallystick.session("chat-2")
    def inner() -> Any:
        return capture("openai", usage)

    with tallystick.session("chat-1"), tallystick.tag("bot"):
        outer, nested = capture("openai", usage), inner()
    assert (outer["session_id"], nested["session_id"]) == ("chat-1", "chat-2")
    assert (outer["tag"], nested["tag"]) == ("bot", "bot")
    assert "session_id" not in capture("openai", usage)


def _record(collector: Collector, **settings: Any) -> None:
    with capturing(collector.dsn, **settings):
        for _ in range(2):
            tallystick.record(model="m", prompt_tokens=5, completion_tokens=5, reasoning_tokens=4)
            tallystick.flush(5)


def test_the_environment_is_a_field_beside_the_tag(collector: Collector) -> None:
    _record(collector, environment="staging", tag="bot")
    assert [(r["environment"], r["tag"]) for r in collector.records] == [("staging", "bot")] * 2
    assert {request["path"] for request in collector.requests} == {V2_PATH}


def test_a_service_without_the_second_version_gets_the_first(collector: Collector) -> None:
    """Once it has said so, it is not asked again; the environment is the tag of the first."""
    collector.missing.add(V2_PATH)
    _record(collector, environment="staging")
    paths = [request["path"] for request in collector.requests]
    assert paths == [V2_PATH, "/api/v1/ingest", "/api/v1/ingest"]
    assert [record["tag"] for record in collector.records] == ["staging"] * 2
    body = json.dumps({"records": collector.records}).encode()
    assert len(decode_batch(body, V1)) == 2


def test_a_service_without_ingest_drops_the_records(collector: Collector) -> None:
    collector.missing |= {V2_PATH, "/api/v1/ingest"}
    _record(collector)
    assert collector.records == []
    assert len(collector.requests) == 3
