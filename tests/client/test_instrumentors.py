"""Beside other tools that hook the same libraries, turned on before or after: each call once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest
import wrapt

import tallystick
from tallystick import hooks
from tests.client import offline
from tests.client.environments import LOCKS, environment_python, run
from tests.client.matrix import CAPTURED
from tests.client.offline import queued
from tests.client.provider_stub import CHAT_COUNTS
from tests.client.styles import CHAT, STREAMED, STYLES
from tests.lazily import openai
from tests.worker.support.promises import Note

pytestmark = pytest.mark.usefixtures("captured")

EVERYTHING: Final = LOCKS / "others" / "instrumentors.lock"
TOOLS: Final = {
    "openinference": EVERYTHING,
    "opentelemetry": LOCKS / "others" / "opentelemetry.lock",
    "traceloop": EVERYTHING,
    "sentry": EVERYTHING,
    "langfuse": EVERYTHING,
    "openlit": LOCKS / "others" / "openlit.lock",
    "wrapt": EVERYTHING,
}
# Some tools parse every response, so that even what the program reads as bytes is seen.
READ_BY_TOOLS: Final = {"openai chat streaming response, lines": f"wrong: {[CHAT_COUNTS]}"}

# What these tools break themselves, without the client too: an error of theirs reaches the program.
BROKEN_BY_TOOLS: Final = {
    "opentelemetry": {
        *("openai chat.stream", "openai chat.stream, async"),
        *("openai embeddings raw", "openai embeddings raw, async"),
        "openai chat streaming response, stream, async",
    }
}


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize(("tool", "lock"), TOOLS.items(), ids=TOOLS)
def test_every_style_counts_once_beside_another_tool(
    tool: str, lock: Path, order: str, note: Note
) -> None:
    python, reasons = environment_python(lock), {style.name: style.uncaptured for style in STYLES}
    for library in ("openai", "anthropic"):
        arguments = ("-W", "ignore", "-m", "tests.client.matrix", library, tool, order)
        printed = run(python, *arguments)
        found = json.loads(printed[printed.index('{"rows"') :])
        assert found["faults"] == 0
        wrong = [
            row
            for row in found["rows"]
            if row["verdict"]
            not in (CAPTURED, reasons[row["name"]], READ_BY_TOOLS.get(row["name"]))
            and row["name"] not in BROKEN_BY_TOOLS.get(tool, ())
        ]
        assert wrong == []
        note(f"{library} styles with {tool} turned on {order}", len(found["rows"]), len(wrong))


def _through(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """As tools call what they wrap; they need the object that the method is of."""
    assert instance is not None
    return wrapped(*args, **kwargs)


class _Proxied(wrapt.ObjectProxy[Any]):
    """As tools return streams."""


def _in_a_proxy(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    answer = wrapped(*args, **kwargs)
    return _Proxied(answer) if isinstance(answer, openai.Stream) else answer


def _raw(method: Any) -> Any:
    return getattr(method, "__tallystick_original__", method)


def _client(wrapper: Any) -> Any:
    """Return a client of a class that another tool hooked before the client was turned on."""

    class Hooked(openai.OpenAI):
        request: Any = wrapt.FunctionWrapper(_raw(openai.OpenAI.request), wrapper)

    hooks._hook_module(openai._base_client)
    return Hooked(api_key="k", http_client=offline.openai_client()._client)


def test_a_client_class_that_another_tool_hooked_first_counts() -> None:
    client = _client(_in_a_proxy)
    client.chat.completions.create(**CHAT)
    stream = client.chat.completions.create(**STREAMED)
    assert type(stream) is _Proxied
    assert len(list(stream)) == 21
    client.chat.completions.with_raw_response.create(**CHAT).parse()
    assert [record["prompt_tokens"] for record in queued()] == [CHAT_COUNTS[0]] * 3
    assert tallystick.stats()["faults"] == 0


def test_an_asynchronous_class_that_another_tool_hooked_first_counts() -> None:
    class Hooked(openai.AsyncOpenAI):
        request: Any = wrapt.FunctionWrapper(_raw(openai.AsyncOpenAI.request), _through)

    hooks._hook_module(openai._base_client)
    http = offline.async_openai_client()._client

    async def ask() -> None:
        await Hooked(api_key="k", http_client=http).chat.completions.create(**CHAT)

    asyncio.run(ask())
    assert len(queued()) == 1


def test_the_calls_of_a_subclass_that_calls_on_count_once_each() -> None:
    class Further(openai.OpenAI):
        def request(self, *args: Any, **kwargs: Any) -> Any:
            super().request(*args, **kwargs)
            return super().request(*args, **kwargs)

    hooks._hook_module(openai._base_client)
    client = Further(api_key="k", http_client=offline.openai_client()._client)
    client.chat.completions.create(**CHAT)
    assert len(queued()) == 2


class _Options:
    def __init__(self) -> None:
        self.method, self.url, self.json_data = "post", "/chat/completions", {"model": "m"}


def _library(hook: Callable[[type], None]) -> Any:
    """Return a module like a library's, whose base class another tool hooked first."""

    class SyncAPIClient:
        def request(self, cast_to: Any, options: Any) -> Any:
            return {"usage": {"prompt_tokens": 3, "completion_tokens": 2}, "model": "m"}

    hook(SyncAPIClient)
    module = ModuleType("openai._base_client")
    vars(module)["SyncAPIClient"] = SyncAPIClient
    hooks._hook_module(module)
    return SyncAPIClient


def test_another_tools_wrapper_around_the_base_class_gets_its_object() -> None:
    def hook(kind: type) -> None:
        wrapt.wrap_function_wrapper(kind, "request", _through)

    assert _library(hook)().request(dict, _Options())["model"] == "m"
    assert len(queued()) == 1


def _fail(*args: Any) -> None:
    raise LookupError


@pytest.mark.parametrize("broken", ["get", "set"])
def test_a_nested_call_that_cannot_be_noted_is_made(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = _client(_through)
    methods: dict[str, Any] = {"get": lambda: None, "set": lambda entry: None, broken: _fail}
    monkeypatch.setattr("tallystick.hooks.requests._outer", SimpleNamespace(**methods))
    assert client.chat.completions.create(**CHAT).usage
    monkeypatch.undo()
    assert tallystick.stats()["faults"] == {"get": 2, "set": 1}[broken]
