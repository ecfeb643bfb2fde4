"""The service tier of a call: read from providers' logs, and kept in what is stored of them."""

import json
from io import BytesIO
from typing import Any

import pytest

from detectors.errors import UnreadableLogError
from detectors.formats import Chunk, encode_chunk, read_chunks, read_stored
from tests.cases import each_case

CHAT: dict[str, Any] = {
    "created": 1_767_225_600,
    "model": "gpt-5.4",
    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
}
MESSAGE: dict[str, Any] = {
    "ts": 1_767_225_600,
    "model": "claude-opus-4-8",
    "usage": {"input_tokens": 10, "output_tokens": 2},
}
OPENAI = [
    ("batch", "batch"),
    ("flex", "flex"),
    ("priority", "priority"),
    ("fast", "fast"),
    ("default", ""),
    ("scale", ""),
    ("Some text of the customer's", ""),
    (None, ""),
]
ANTHROPIC: list[tuple[dict[str, Any], str]] = [
    ({"service_tier": "batch"}, "batch"),
    ({"service_tier": "priority"}, "priority"),
    ({"service_tier": "standard"}, ""),
    ({"speed": "standard"}, ""),
    ({"service_tier": "standard", "speed": "fast"}, "fast"),
    ({}, ""),
]


def _tiers(*lines: dict[str, Any]) -> list[str]:
    """As read, having been stored on the way, too."""
    log = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    [chunk] = read_chunks(BytesIO(log))
    [stored] = read_stored(BytesIO(encode_chunk(chunk)))
    assert stored.columns == chunk.columns
    return chunk.columns["service_tier"]


def test_openai_names_it_at_the_top_level() -> None:
    flat = [CHAT | {"service_tier": name} for name, _ in OPENAI]
    wrapped = [
        {"response": CHAT | {"service_tier": name}, "request": {"model": "gpt-5.4"}}
        for name, _ in OPENAI
    ]
    expected = [tier for _, tier in OPENAI]
    assert _tiers(*flat) == expected
    assert _tiers(*wrapped) == expected


def test_anthropic_names_it_in_the_usage() -> None:
    flat = [MESSAGE | {"usage": MESSAGE["usage"] | named} for named, _ in ANTHROPIC]
    wrapped = [
        {"ts": line["ts"], "response": {key: line[key] for key in ("model", "usage")}}
        for line in flat
    ]
    expected = [tier for _, tier in ANTHROPIC]
    assert _tiers(*flat) == expected
    assert _tiers(*wrapped) == expected


def test_no_tier_but_a_known_one_is_stored() -> None:
    [chunk] = read_chunks(BytesIO(json.dumps(CHAT | {"service_tier": "default"}).encode()))
    assert b"tier" not in encode_chunk(chunk)
    # No other tier can have been stored.
    [chunk] = read_chunks(BytesIO(json.dumps(CHAT | {"service_tier": "batch"}).encode()))
    forged = encode_chunk(chunk).replace(b'"batch"', b'"gratis"')
    with pytest.raises(UnreadableLogError):
        list(read_stored(BytesIO(forged)))


@each_case("name", ["Batch", "BATCH", "ON_DEMAND_FLEX"])
def test_a_tier_is_the_same_in_any_case(name: str) -> None:
    tier = name.lower().removeprefix("on_demand_")
    assert _tiers(CHAT | {"service_tier": name}) == [tier]
    row = f"2026-06-01T12:00:00Z,openai,gpt-5.4,10,2,{name}"
    assert _read_csv(row).columns["service_tier"] == [tier]


def _read_csv(row: str) -> Chunk:
    header = "ts,provider,model,prompt_tokens,completion_tokens,service_tier"
    [chunk] = read_chunks(BytesIO(f"{header}\n{row}\n".encode()))
    return chunk
