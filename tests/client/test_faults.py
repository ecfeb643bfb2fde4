"""An exception raised at any line of ours while a call is made changes nothing for its caller."""

import asyncio
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import httpx2
import openai
import pytest

import tallystick
from tallystick import capture
from tests.client import offline
from tests.client.collector import refusing_dsn
from tests.client.styles import ASKED, CHAT, CLAUDE, STREAMED

FOLDER: Final = str(Path(tallystick.__file__).parent)
# Where the library's own method is called, or what it gave is handed on, there is nothing of ours;
# what `_end` and `_see` do is guarded within.
NOT_OURS: Final = (
    "try:",
    "except ",
    "raise",
    "return self",
    "for item in self._items:",
    "yield item",
    "_end(self._call)",
    "_see(self._call, item)",
    "return answer",
    "return item",
    "return original(",
    "return await original(",
    "answer = original(",
    "answer = await original(",
    "item = self._next()",
    "item = await self._next()",
    "call = None",
    "self._loader.exec_module(module)",
)
# These run in a thread of their own, or at the program's own request.
NOT_HOOKS: Final = ("sending.py", "delivery.py:_run", "delivery.py:_serve", "delivery.py:_send")
Line = tuple[str, int]


class InjectedError(Exception):
    """Nothing that a library could mean."""


def _plain() -> Any:
    return offline.openai_client().chat.completions.create(**CHAT)


def _embedding() -> Any:
    return offline.openai_client().embeddings.create(model="m", input=["a", "b"])


def _stream() -> Any:
    return list(offline.openai_client().chat.completions.create(**STREAMED))


def _abandoned() -> Any:
    with offline.anthropic_client().messages.create(**CLAUDE, stream=True) as stream:
        first = next(stream)
    del stream
    return first


def _raw() -> Any:
    response = offline.openai_client().responses.with_raw_response.create(**ASKED)
    return response.parse()


def _background() -> Any:
    client = offline.openai_client()
    client.responses.cancel("resp_bg1")
    return client.responses.retrieve("resp_bg1")


def _message() -> Any:
    with offline.anthropic_client().messages.stream(**CLAUDE) as stream:
        return stream.get_final_message()


def _async_plain() -> Any:
    async def ask() -> Any:
        return await offline.async_anthropic_client().messages.create(**CLAUDE)

    return asyncio.run(ask())


def _async_stream() -> Any:
    async def ask() -> Any:
        stream = await offline.async_openai_client().chat.completions.create(**STREAMED)
        items = [item async for item in stream]
        await stream.close()
        return items

    return asyncio.run(ask())


def _fail(request: Any) -> Any:
    return httpx2.Response(500)


def _failing() -> Any:
    client = offline.openai_client(_fail)
    with pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(**CHAT)
    return str(raised.value)


def _import() -> Any:
    """As in a program that imports a library after `init()`."""
    before = {name: module for name, module in sys.modules.items() if _is_openai_stream(name)}
    for name in before:
        del sys.modules[name]
    try:
        return importlib.import_module("openai._streaming").__name__
    finally:
        sys.modules.update(before)


def _is_openai_stream(name: str) -> bool:
    return name == "openai._streaming"


CALLS: Final = (
    _plain,
    _embedding,
    _stream,
    _abandoned,
    _raw,
    _background,
    _message,
    _async_plain,
    _async_stream,
    _failing,
    _import,
)


class Tracer:
    """Notes the lines of ours that run, and raises once at one of them."""

    def __init__(self, target: Line | None = None) -> None:
        self.target = target
        self.lines: dict[Line, None] = {}
        self.raised = 0
        self.before = sys.gettrace()

    def __enter__(self) -> "Tracer":
        sys.settrace(self._of_frame)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self.before)

    def _of_frame(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(FOLDER):
            return None
        place = f"{Path(code.co_filename).name}:{code.co_name}"
        return None if place.startswith(NOT_HOOKS) else self._of_line

    def _of_line(self, frame: FrameType, event: str, argument: object) -> Any:
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line":
            self.lines[line] = None
            if line == self.target and not self.raised:
                self.raised += 1
                sys.settrace(None)
                raise InjectedError
        return self._of_line


@pytest.fixture(autouse=True)
def capturing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with offline.capturing(monkeypatch, refusing_dsn(), prefix_hash=True, tag="faults"):
        yield


def _forget() -> None:
    """So that what is done once a process is done in every try."""
    from tallystick import options, providers

    options._routes.clear()
    providers._labels.clear()
    assert capture.active is not None
    capture.active.reset()
    offline.queued()


def _shown(result: Any) -> str:
    return f"{type(result).__qualname__} {result!r}"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__.strip("_"))
def test_a_fault_at_any_line_changes_no_result(call: Callable[[], Any]) -> None:
    expected = _shown(call())
    _forget()
    with Tracer() as tracer:
        call()
    lines = [line for line in tracer.lines if not _text(line).startswith(NOT_OURS)]
    assert len(lines) > 5
    unhit = 0
    for line in lines:
        _forget()
        with Tracer(line) as tracer:
            assert _shown(call()) == expected, line
        unhit += not tracer.raised
    assert unhit <= len(lines) // 20


def _text(line: Line) -> str:
    return Path(line[0]).read_text().splitlines()[line[1] - 1].strip()


def test_what_is_left_out_is_only_the_librarys_own() -> None:
    for path in (Path(FOLDER) / "hooks").glob("*.py"):
        for text in map(str.strip, path.read_text().splitlines()):
            if text.startswith(NOT_OURS) and "original" in text:
                assert text.partition("original")[2].startswith("(self, *args, **kwargs)")
