"""What the client writes is what the service takes, whatever a program or a provider hands it.

One refused record would take its whole batch with it.
"""

import hashlib
import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

import tallystick
from detectors.formats import V2, decode_batch
from tallystick.calls import begin
from tallystick.reading.prompts import hash_prefixes
from tests.client.offline import queued
from tests.exploration import explored

pytestmark = pytest.mark.usefixtures("captured")
# Lone surrogates, controls and the odd planes of Unicode included.
texts = st.text(st.characters(codec=None), max_size=260)
numbers = st.integers(-(10**14), 10**14) | st.floats() | st.booleans() | st.none() | st.just("5")
counts = st.integers(0, 10**6) | numbers


def _take() -> int:
    """How many records wait, all of which the service takes."""
    records = queued()
    if records:
        assert len(list(decode_batch(json.dumps({"records": records}).encode(), V2))) == len(
            records
        )
    return len(records)


@explored(
    300,
    st.fixed_dictionaries(
        {"model": texts, "prompt_tokens": counts, "completion_tokens": counts},
        optional={
            "provider": st.from_regex(r"[a-z0-9._-]{1,70}", fullmatch=True) | texts,
            "ts": st.datetimes(),
            "cached_tokens": counts,
            "cache_write_tokens": counts,
            "declared_max_tokens": counts,
            "latency_ms": numbers,
            "endpoint": texts,
            "request_id": texts,
            "tag": texts,
            "prefix_hash": st.text("0123456789abcdefABCDEFg\n", min_size=62, max_size=65),
        },
    ),
)
def test_any_manual_record_is_valid_or_dropped(record: dict[str, Any]) -> None:
    is_counted = tallystick.record(**record)
    assert _take() == is_counted
    moment = record.get("ts", datetime(2026, 1, 1))  # noqa: DTZ001 - UTC is assumed
    if not isinstance(moment, datetime) or not 2000 <= moment.year < 2100:
        assert not is_counted


usages = st.recursive(
    numbers | texts,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "usage",
             "total_tokens", "prompt_tokens_details", "input_tokens_details", "cached_tokens",
             "cache_read_input_tokens", "cache_creation_input_tokens", "response", "message"]
        ),
        inner | counts,
    ),
    max_leaves=12,
)  # fmt: skip


@explored(300, st.sampled_from(["openai", "anthropic"]), usages, texts | st.none(), texts)
def test_any_answer_of_a_provider(
    library: str, usage: object, model: str | None, request_id: str
) -> None:
    asked = {"model": "gpt-4o", "max_tokens": usage if isinstance(usage, int) else None}
    options = SimpleNamespace(method="post", url="/chat/completions", json_data=asked)
    call = begin(library, object(), options)
    assert call is not None
    call.request_id = request_id
    call.see({"model": model, "usage": usage})
    call.end()
    assert _take() <= 1


parts = st.recursive(
    texts | st.none() | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries({}, optional={"text": inner, "content": inner, "type": texts})
    ),
    max_leaves=10,
)


@explored(
    300,
    st.dictionaries(
        st.sampled_from(["system", "instructions", "messages", "input", "prompt", "tools"]), parts
    ),
    st.sampled_from([1, 1_000]),
)
def test_the_hash_is_that_of_the_plainest_reading(body: dict[str, Any], times: int) -> None:
    """Every text of it joined, and only then cut: the client stops as soon as it has enough."""
    found: list[str] = []

    def read(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            for item in value:
                read(item)
        elif isinstance(value, dict):
            read(value["text"] if isinstance(value.get("text"), str) else value.get("content"))

    body = {name: [part] * times for name, part in body.items()}
    for name in ("system", "instructions", "messages", "input", "prompt"):
        read(body.get(name))
    whole = "\n".join(found)[:4_096].encode("utf-8", "surrogatepass")
    assert hash_prefixes(body)[0] == (hashlib.sha256(whole).hexdigest() if found else None)
