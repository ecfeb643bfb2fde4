"""No text, no key and no header of anybody reaches the wire or the client's own memory."""

import gc
import sys
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

import tallystick
from tallystick import capture
from tests.client import offline, provider_stub
from tests.client.collector import Collector
from tests.client.offline import capturing
from tests.client.provider_stub import CANARY
from tests.client.providers.lookalikes import gemini
from tests.client.styles import ASKED, CHAT, CLAUDE, EMBEDDED, STREAMED

TOOL: Any = {
    "type": "function",
    "function": {"name": f"{CANARY}_tool", "description": CANARY, "parameters": {}},
}
HEADERS: dict[str, Any] = {
    "extra_headers": {"x-user": f"{CANARY}-header"},
    "user": f"{CANARY}-user",
}


def _ask_everything() -> list[Any]:
    client, claude = offline.openai_client(), offline.anthropic_client()
    left_open = claude.messages.create(**CLAUDE, stream=True)
    next(left_open)
    raw = client.chat.completions.with_raw_response.create(**CHAT)
    client.chat.completions.create(**CHAT, tools=[TOOL], **HEADERS)
    list(client.chat.completions.create(**STREAMED))
    client.responses.create(**ASKED)
    client.embeddings.create(**EMBEDDED)
    claude.messages.create(**CLAUDE)
    client.post(f"/chat/completions?secret={CANARY}", cast_to=object, body=CHAT)
    return [left_open, raw]


def _reachable(root: object) -> Iterator[object]:
    """All that is held by what the client holds, but not what it shares with the rest.

    Where the client's plugin is installed, pytest loads the client, and its loader holds all tests.
    """
    shared = (type, types.ModuleType, types.FrameType, ModuleSpec, AssertionRewritingHook)
    seen: set[int] = set()
    left = [root]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, shared):
            continue
        if isinstance(one, types.FunctionType) and not one.__module__.startswith("tallystick"):
            continue
        seen.add(id(one))
        yield one
        left.extend(gc.get_referents(one))


@pytest.mark.parametrize("prefix_hash", [False, True])
def test_nothing_of_a_call_but_counts_and_labels_is_sent_or_kept(
    prefix_hash: bool, collector: Collector
) -> None:
    key = "secret" if prefix_hash else None
    with capturing(collector.dsn, prefix_hash_key=key, tag="canaries"):
        kept = _ask_everything()
        current = capture.active
        assert current is not None
        assert len(current.delivery._queue) == 6
        assert len(current.open_streams) == 1
        roots = [vars(module) for name, module in sys.modules.items() if _is_ours(name)]
        held = [one for root in [current, *roots] for one in _reachable(root)]
        found = [one for one in held if isinstance(one, (str, bytes)) and CANARY in str(one)]
        assert found == []
        del kept
        assert tallystick.flush(5)
    assert collector.problems == []
    assert CANARY.encode() not in collector.bytes
    assert b"asked" not in collector.bytes
    hashed = [record for record in collector.records if "prefix_hash" in record]
    assert bool(hashed) == prefix_hash


def _is_ours(name: str) -> bool:
    """Whether a program has the module; the plugin holds all of pytest, which has seen answers."""
    return name.partition(".")[0] == "tallystick" and name != "tallystick.testing"


def test_with_hashing_off_the_messages_are_not_read(collector: Collector) -> None:
    from tallystick.calls import begin

    class Untouchable(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError

        def __len__(self) -> int:
            raise AssertionError

    class Options:
        def __init__(self) -> None:
            body = {"model": "m", "messages": Untouchable(), "input": Untouchable()}
            self.__dict__.update(method="post", url="/chat/completions", json_data=body)

    with capturing(collector.dsn):
        assert begin("openai", object(), Options()) is not None


def test_only_usage_model_tier_and_id_of_a_response_are_read(collector: Collector) -> None:
    from tallystick.calls import begin

    read: set[str] = set()

    class Members(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            read.add(name)
            return super().get(name, default)

    class Options:
        def __init__(self) -> None:
            self.__dict__.update(method="post", url="/chat/completions", json_data=dict(CHAT))

    with capturing(collector.dsn):
        call = begin("openai", object(), Options())
        assert call is not None
        call.see(Members(provider_stub.completion()))
        call.end()
    assert read == {"usage", "model", "service_tier", "id"}


def _searching(request: Any) -> Any:
    """Answer with a stream whose last event has all that is read beside a usage, and text."""
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": CANARY, "annotations": []}]}  # fmt: skip
    action = {"type": "search", "query": CANARY}
    searched = {"type": "web_search_call", "id": "w", "status": "completed", "action": action}
    whole = {**provider_stub.response("resp_1", "completed"), "output": [searched, said]}
    return offline.stream(
        [("response.completed", {"type": "response.completed", "response": whole})]
    )


def _gemini_chunk() -> Any:
    grounding = SimpleNamespace(web_search_queries=[f"{CANARY} a", f"{CANARY} b", f"{CANARY} a"])
    part = SimpleNamespace(text=CANARY)
    candidate = SimpleNamespace(content=part, grounding_metadata=grounding, finish_reason=None)
    usage = SimpleNamespace(prompt_token_count=5, candidates_token_count=2, total_token_count=7)
    return SimpleNamespace(usage_metadata=usage, model_version="gemini-3-pro", response_id="r",
                           candidates=[candidate], sdk_http_response=None)  # fmt: skip


@pytest.mark.usefixtures("captured")
def test_of_a_stream_that_stays_open_no_text_is_kept() -> None:
    stream = offline.openai_client.__wrapped__(_searching).responses.create(**ASKED, stream=True)
    next(stream)
    chunks = (
        gemini([_gemini_chunk()] * 2)
        .Models()
        ._generate_content_stream(model="gemini-3-pro", contents=CANARY, config=None)
    )
    next(chunks)
    current = capture.active
    assert current is not None
    assert len(current.open_streams) == 2
    held = [one for one in _reachable(current) if isinstance(one, (str, bytes))]
    assert [one for one in held if CANARY in str(one)] == []
    stream.close()
    chunks.close()
    searches = {record["model"]: record.get("web_searches") for record in offline.queued()}
    assert searches == {"gpt-4o-2024-08-06": 1, "gemini-3-pro": 2}
