"""Odd values and sizes: what a text within a text holds, what is too long, what has no name."""

import json
from io import BytesIO
from typing import Any

import pytest

from detectors.errors import UnreadableLogError
from detectors.formats.adapters.labels import find_model, id_of, provider_of
from detectors.formats.json_logs.usage.reader import read_usage
from detectors.formats.text import splitting
from detectors.scrub import texts
from detectors.scrub.scrubber import NOT_JSON, TOO_LONG, Scrubber
from tests.cases import each_case
from tests.detectors.scrub import raw_logs as raw


def read(*documents: Any, hashes_short: bool = False) -> list[dict[str, Any]]:
    log = b"\n".join(json.dumps(document).encode() for document in documents)
    lines = b"".join(Scrubber(hashes_short=hashes_short).read(BytesIO(log))).splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("size", [8, 64, 1_999, 1 << 20])
def test_a_line_that_is_too_long_is_counted_and_the_next_line_is_read(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "MAX_TEXT_BYTES", 2_000)
    long = json.dumps(raw.CHAT_PAIR | {"note": "x" * 2_000}).encode()
    right = json.dumps(raw.CHAT_PAIR).encode()
    log = b"\n".join([right, long, right.replace(b"chatcmpl-1", b"chatcmpl-2"), long])

    def in_blocks(file: BytesIO, **_: Any) -> Any:
        return iter(lambda: file.read(size), b"")

    monkeypatch.setattr(texts, "read_blocks", in_blocks)
    scrubber = Scrubber()
    assert b"".join(scrubber.read(BytesIO(log))).count(b"\n") == 2
    assert scrubber.summary.dropped == {TOO_LONG: 2}


def test_line_breaks_and_carriage_returns_make_no_further_line() -> None:
    scrubber = Scrubber()
    assert b"".join(scrubber.read(BytesIO(json.dumps(raw.CHAT_PAIR).encode() + b"\n"))) != b""
    assert not scrubber.summary.dropped
    # A first line with a carriage return in it is dropped and the next line is read.
    scrubber = Scrubber()
    log = b"model,\rtokens\n" + json.dumps(raw.CHAT_PAIR).encode()
    assert b"".join(scrubber.read(BytesIO(log))).count(b"\n") == 1
    assert scrubber.summary.dropped == {NOT_JSON: 1}


def test_one_object_over_several_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "MAX_DOCUMENT_BYTES", 100)
    with pytest.raises(UnreadableLogError, match="export one object per line"):
        list(Scrubber().read(BytesIO(json.dumps(raw.CHAT_PAIR, indent=1).encode())))


@each_case(
    "changed",
    [
        {"response": "{broken", "metadata": "{broken", "request_tags": "[broken"},
        {"response": 5, "metadata": None, "request_tags": "support", "proxy_server_request": "{"},
    ],
)
def test_a_spend_log_of_broken_texts_still_has_its_own_counts(changed: dict[str, Any]) -> None:
    [line] = read(raw.SPEND_LOG | changed)
    assert line["usage"] == {"prompt_tokens": 40, "completion_tokens": 12}
    assert "tag" not in line


def test_an_input_that_only_looks_like_json_is_a_prompt() -> None:
    [line] = read(raw.LANGFUSE | {"input": "[Where is the anchor?"}, hashes_short=True)
    [same] = read(raw.CHAT | {"prompt": "[Where is the anchor?"}, hashes_short=True)
    assert line["prefix_hash"] == same["prefix_hash"]


@each_case(("length", "asked"), [(1_023, False), (1_023, True), (1_024, False)])
def test_a_short_prompt_has_a_hash_only_if_asked(length: int, asked: bool) -> None:
    [line] = read(raw.CHAT_PAIR | {"request": {"prompt": "x" * length}}, hashes_short=asked)
    is_hashed = asked or length == 1_024
    assert ("prefix_hash" in line, "prefix_hashes" in line) == (is_hashed, is_hashed)


def test_a_hash_that_a_log_has_of_a_short_prompt_is_kept() -> None:
    [line] = read(raw.CHAT_PAIR | {"request": {"prompt": "x"}, "prefix_hash": "ab" * 32})
    assert line["prefix_hash"] == "ab" * 32


def test_fast_mode_is_a_tier() -> None:
    response = raw.MESSAGE | {"usage": raw.MESSAGE["usage"] | {"speed": "fast"}}
    [line] = read(raw.MESSAGE_PAIR | {"response": response})
    assert line["service_tier"] == "fast"


@each_case(
    ("usage", "counts"),
    [
        ({"input": 40, "input_cached_tokens": 30, "output": 12, "total": 52}, (40, 12, 30, 0)),
        ({"input": 10, "input_cached_tokens": 30, "output": 12, "total": 52}, (40, 12, 30, 0)),
        ({"promptTokens": 40, "completionTokens": 12}, (40, 12, 0, 0)),
        ({"input": 40}, (40, 0, 0, 0)),
        ({"input": 40, "output": 12, "unit": "TOKENS", "total": None}, (40, 12, 0, 0)),
    ],
)
def test_langfuse_counts_every_kind_of_token_once(
    usage: dict[str, Any], counts: tuple[int, ...]
) -> None:
    (found,) = read_usage(usage, dialect="langfuse", may_lack_output=True)
    assert (found.prompt, found.completion, found.cached or 0, found.written or 0) == counts


@each_case("usage", [None, [], "40", {}, {"output": 5}, {"input": -1, "output": 2}])
def test_usage_without_prompt_tokens_is_not_usage(usage: Any) -> None:
    assert read_usage(usage) == []
    assert read_usage(usage, dialect="langfuse") == []


def test_the_cache_writes_of_a_breakdown_count_where_the_sum_is_missing() -> None:
    split = {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}
    usage = {"input_tokens": 10, "output_tokens": 2, "cache_creation": split}
    (found,) = read_usage(usage)
    assert (found.prompt, found.completion, found.written) == (17, 2, 7)


@each_case(
    ("model", "vendor"),
    [
        ("gpt-5.4", "openai"),
        ("openai/o3-mini", "openai"),
        ("claude-opus-4@20250514", "anthropic"),
        ("anthropic.claude-opus-4-8-v1:0", "anthropic"),
        ("models/gemini-3-pro", "google"),
        ("llama-4-70b", "unknown"),
    ],
)
def test_a_model_name_implies_its_provider(model: str, vendor: str) -> None:
    assert find_model(model) == model
    assert provider_of(model) == vendor


def test_an_unusual_id_is_replaced_by_a_hash() -> None:
    assert id_of("chatcmpl-1") == "chatcmpl-1"
    assert id_of("") is None
    assert id_of(5) is None
    made = id_of("the customer's question")
    assert made == id_of("the customer's question") != id_of("another question")
    assert made is not None
    assert "customer" not in made
