"""Each shape of raw log beside the one line that it comes to."""

import gzip
import json
from hashlib import sha256
from io import BytesIO
from typing import Any, Final

from detectors.formats import read_chunks
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case
from tests.detectors.scrub import raw_logs as raw

HASH: Final = sha256(f"{raw.SYSTEM}\n{raw.QUESTION}".encode()).hexdigest()
QUESTIONS: Final = sha256(f"{raw.QUESTION}\n{raw.ANSWER}".encode()).hexdigest()
CACHED: Final = {"cached_tokens": 30}
BOTH: Final = {"cached_tokens": 20, "cache_write_tokens": 15}


def call(
    provider: str, model: str, details: dict[str, int] | None, **labels: Any
) -> dict[str, Any]:
    usage: dict[str, Any] = {"prompt_tokens": 40, "completion_tokens": 12}
    if details:
        usage["prompt_tokens_details"] = details
    return {"ts": raw.TIME, "provider": provider, "model": model, "usage": usage} | labels


def hashed(line: dict[str, Any]) -> dict[str, Any]:
    """Add the only level that these short prompts have."""
    known = line.get("prefix_hash")
    return line | ({"prefix_hashes": [known[:16]]} if known else {})


def thinking(line: dict[str, Any]) -> dict[str, Any]:
    details = {"completion_tokens_details": {"reasoning_tokens": 3}}
    return line | {"usage": line["usage"] | details}


SECOND: Final = {"ts": "2026-09-21T14:13:20Z"}
GPT: Final = {"declared_max_tokens": 512, "prefix_hash": HASH}
CHAT: Final = SECOND | {"request_id": "chatcmpl-1", "service_tier": "flex"}
ANTHROPIC: Final = call("anthropic", "claude-opus-4-8", BOTH, request_id="msg_1")
EMBEDDED: Final = call("openai", "text-embedding-3-small", None, prefix_hash=QUESTIONS) | SECOND
EXPECTED: Final[dict[str, dict[str, Any]]] = {
    "chat pair": call("openai", "gpt-5.4", CACHED, tag="support", latency_ms=250.0, **GPT) | CHAT,
    "response pair": thinking(
        call("openai", "gpt-5.4", CACHED | {"cache_write_tokens": 5}, endpoint="/v1/ask", **GPT)
    )
    | SECOND
    | {"request_id": "resp_1"},
    "message pair": ANTHROPIC | GPT,
    "embedding pair": EMBEDDED | {"usage": {"prompt_tokens": 40, "completion_tokens": 0}},
    "flat chat": call("openai", "gpt-5.4", CACHED, tag="support", prefix_hash=HASH) | CHAT,
    "flat response": thinking(
        call("openai", "gpt-5.4", CACHED | {"cache_write_tokens": 5}, declared_max_tokens=512)
    )
    | SECOND
    | {"request_id": "resp_1"},
    "batch": call("openai", "gpt-5.4", CACHED) | CHAT | {"service_tier": "batch"},
    "anthropic batch": ANTHROPIC | {"service_tier": "batch"},
    "claude code": ANTHROPIC
    | {"provider": "claude-code", "tag": "boats", "session_id": raw.SESSION},
    "litellm": call(
        "anthropic",
        "claude-opus-4-8",
        BOTH,
        endpoint="acompletion",
        request_id="chatcmpl-1",
        tag="support",
        latency_ms=1_250.0,
        **GPT,
    ),
    "litellm spend log": call(
        "openai",
        "gpt-5.4",
        BOTH,
        endpoint="acompletion",
        request_id="chatcmpl-1",
        tag="support",
        latency_ms=1_250.0,
        prefix_hash=HASH,
        service_tier="flex",
    ),
    "langfuse": call(
        "anthropic",
        "claude-opus-4-8",
        BOTH,
        request_id="5d3f9b1c2a4e6f70",
        tag="support",
        latency_ms=1_250.0,
        **GPT,
    ),
    "langfuse, cached": thinking(
        call(
            "openai",
            "gpt-5.4",
            CACHED,
            request_id="6d3f9b1c2a4e6f70",
            tag="support",
            latency_ms=1_250.0,
            **GPT,
        )
    ),
    "langfuse, old": call(
        "anthropic",
        "claude-opus-4-8",
        None,
        request_id="5d3f9b1c2a4e6f70",
        tag="support",
        latency_ms=1_250.0,
        **GPT,
    ),
}


def scrubbed(log: bytes) -> bytes:
    return b"".join(Scrubber(hashes_short=True).read(BytesIO(log)))


def lines_of(log: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in scrubbed(log).splitlines()]


def test_every_shape_has_its_line() -> None:
    assert EXPECTED.keys() == raw.RAW.keys()


@each_case("name", raw.RAW)
def test_a_raw_object_gives_its_line(name: str) -> None:
    line = json.loads(json.dumps(hashed(EXPECTED[name])).replace(".250Z", ".250000Z"))
    [found] = lines_of(json.dumps(raw.RAW[name]).encode())
    assert found.pop("reported_usd", None) == (0.1 if name.startswith("langfuse") else None)
    assert found == line


@each_case("name", raw.RAW)
def test_a_line_is_read_as_a_counts_only_log(name: str) -> None:
    [chunk] = read_chunks(BytesIO(scrubbed(json.dumps(raw.RAW[name]).encode())))
    assert not chunk.invalid
    assert chunk.columns["model"] == [hashed(EXPECTED[name])["model"]]
    assert chunk.columns["provider"] == [hashed(EXPECTED[name])["provider"]]
    assert chunk.columns["service_tier"] == [hashed(EXPECTED[name]).get("service_tier", "")]


EACH: Final = raw.apart([*raw.RAW.values()])
ALL: Final = [json.dumps(one).encode() for one in EACH]


@each_case(
    "log",
    [
        b"\n".join(ALL),
        b"\xef\xbb\xbf" + b"\r\n\r\n".join(ALL) + b"\r\n",
        b" [" + b" ,\n".join(ALL) + b"]\n",
        json.dumps(EACH, indent=2).encode(),
        gzip.compress(b"\n".join(ALL)),
        json.dumps({"data": EACH, "meta": {"page": 1}}).encode(),
        json.dumps({"data": EACH, "meta": {"page": 1}}, indent=2).encode(),
    ],
)
def test_one_log_may_mix_every_shape_in_any_container(log: bytes) -> None:
    found = [(line["model"], line["provider"]) for line in lines_of(log)]
    expected = [(line["model"], line["provider"]) for line in EXPECTED.values()]
    assert sorted(found) == sorted(expected)


@each_case(
    ("document", "reason"),
    [
        (raw.CLAUDE_CODE_QUESTION, "without token counts"),
        ({}, "without token counts"),
        (raw.LITELLM | {"status": "failure"}, "failed"),
        (raw.LITELLM | {"cache_hit": True}, "answered from a gateway's cache"),
        (raw.BATCH | {"response": None, "error": {"message": "no"}}, "without token counts"),
        (raw.CHAT | {"created": None}, "without a time"),
        (raw.CHAT | {"created": 10**400}, "without a time"),
        (raw.CHAT | {"model": "an anchor for a boat"}, "without a model name"),
        (
            raw.CHAT | {"usage": {"prompt_tokens": -1, "completion_tokens": 2}},
            "has `usage` without the",
        ),
        (
            raw.CHAT | {"usage": {"prompt_tokens": True, "completion_tokens": 2}},
            "has `usage` without the",
        ),
        (
            raw.CHAT | {"usage": {"prompt_tokens": 10**13, "completion_tokens": 2}},
            "has `usage` without the",
        ),
        (raw.MESSAGE_PAIR | {"response": "an anchor"}, "without token counts"),
        (["an anchor"], "not JSON objects, or cut off"),
        ("an anchor", "not JSON objects, or cut off"),
    ],
)
def test_calls_that_are_not_billed_are_dropped_with_a_reason(document: Any, reason: str) -> None:
    scrubber = Scrubber()
    assert b"".join(scrubber.read(BytesIO(b"\n" + json.dumps(document).encode() + b"\n"))) == b""
    [(said, count)] = scrubber.summary.reasons()
    assert said.startswith(reason)
    assert count == 1


@each_case("text", ["redacted-by-litellm", "Where (litellm_truncated 5 chars) is"])
def test_text_that_a_gateway_removed_has_no_hash(text: str) -> None:
    document = raw.LITELLM | {"messages": [{"role": "user", "content": text}]}
    [line] = lines_of(json.dumps(document).encode())
    assert "prefix_hash" not in line


def test_a_response_alone_is_not_hashed_by_the_instructions_that_it_repeats() -> None:
    [line] = lines_of(json.dumps(raw.RESPONSE).encode())
    assert "prefix_hash" not in line


def test_milliseconds_since_1970_are_a_time_too() -> None:
    document = raw.CHAT | {"created": None, "timestamp": raw.CREATED * 1_000 + 250}
    [line] = lines_of(json.dumps(document).encode())
    assert line["ts"] == "2026-09-21T14:13:20.250000Z"
