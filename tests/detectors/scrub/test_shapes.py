"""Each shape of raw log beside the one line that it comes to."""

import gzip
import json
from io import BytesIO
from typing import Any, Final

from detectors.formats import read_chunks
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case
from tests.detectors.scrub import raw_logs as raw


def scrubbed(log: bytes) -> bytes:
    return b"".join(Scrubber(hashes_short=True).read(BytesIO(log)))


def lines_of(log: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in scrubbed(log).splitlines()]


@each_case("name", raw.RAW)
def test_a_raw_object_gives_its_line(name: str) -> None:
    [found] = lines_of(json.dumps(raw.RAW[name]).encode())
    assert found.pop("reported_usd", None) == (0.1 if name.startswith("langfuse") else None)
    assert found == raw.LINES[name]


@each_case("name", raw.RAW)
def test_a_line_is_read_as_a_counts_only_log(name: str) -> None:
    [chunk] = read_chunks(BytesIO(scrubbed(json.dumps(raw.RAW[name]).encode())))
    assert not chunk.invalid
    line = raw.LINES[name]
    assert chunk.columns["model"] == [line["model"]]
    assert chunk.columns["provider"] == [line["provider"]]
    assert chunk.columns["service_tier"] == [line.get("service_tier", "")]


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
    expected = [(line["model"], line["provider"]) for line in raw.LINES.values()]
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
