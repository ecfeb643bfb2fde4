"""An exception raised at any line of ours while a call is made changes nothing for its caller."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tallystick import calls, capture
from tallystick.capture import Capture
from tallystick.hooks import answers, extra_usage, streams
from tallystick.reading import options
from tests.client import offline
from tests.client.collector import refusing_dsn
from tests.client.faults import FOLDER, Line, Watch, asking, lines_of, text_of
from tests.client.kinds import CALLS, FURTHER
from tests.client.styles import CHAT
from tests.worker.support.promises import at_a_third, sampled

# Where the library's own method is called, or what it gave is handed on, there is nothing of ours;
# what the `end` of a call does is guarded within.
NOT_OURS: Final = (
    "raise",
    "for item in items:",
    "async for item in items:",
    "yield item",
    *("call.end()", "self.call.end()", "self._call.end()"),
    "return answer",
    "answer = original(",
    "answer = await original(",
    "if leave is not None:",  # cannot fail
    "watch.end()",  # guarded within
    *("guarded(", "begun = guarded(", "call = guarded(", "changed = guarded("),
    *("with original(", "async with original(", "yield response"),
    *("document = type(", "return document", "items = getattr(type(", "return _WATCHES["),
    *("for name in _WATCHES:", "see = watch.see", 'watch.call.status = "error"'),
    "self.end(is_over=True)",  # so is this
    "return self._parse(parsed)",
    'call.status = "error"',  # stores a member, which cannot fail
    "return self._loader.create_module(spec)",
    "self._loader.exec_module(module)",
)
# Of `extra_usage.py`: what cannot fail, and what the library's own streams do.
GUARDED_WITHIN: Final = (
    *(*NOT_OURS, "if not _is_extra(", "chunks.close()", "await chunks.aclose()"),
    *("for chunk in chunks:", "async for chunk in chunks:", "yield chunk"),
)
# What only handles the faults of others, sets a hook up, or bounds what is remembered.
NO_LINES_OF_CALLS: Final = (
    "raise",
    "note_fault()",
    "current.miss(",  # no response is without a model
    "self.capture.note_unknown(odd, 0)",  # nor has a tier that nobody knows
    # Of `include_usage`: after a fault there, the program sees the chunk that should be hidden.
    *("from tallystick.hooks.extra_usage", "ask_for_usage(", "stream._iterator = hide("),
    'call.status = "error"',
    "def ",
    "async def ",
    *("return _parse", "return async_method if", "return wrap", "return stream"),
    *('watch.call.status = "error"', "raise NotImplementedError"),
    # Constants and members, which cannot fail.
    *("return False", "return True", "return {}", "found = None", "self._is_partial = False"),
    *("self._metrics = numbers", "if self._is_stream and not self.has_ended:"),
    "self.capture.open_streams[id(self)] = self",
    "_kinds.clear()",
    "_models.clear()",
)


@pytest.fixture(autouse=True, scope="module")
def capturing() -> Iterator[None]:
    """Capture with a queue so short that every record wakes the thread.

    All tests share it, because finding the functions to change takes as long as a test.
    """
    settings: dict[str, Any] = {"prefix_hash": True, "tag": "faults", "max_queue": 1}
    with offline.capturing(refusing_dsn(), **settings), asking():
        yield


def _forget() -> None:
    """So that what is done once a process is done in every try."""
    options._routes.clear()
    answers._kinds.clear()
    streams._silent.clear()
    calls._models.clear()
    assert capture.active is not None
    capture.active = Capture(capture.active.settings, capture.active.delivery)
    offline.queued()
    delivery = capture.active.delivery
    thread = delivery._thread
    delivery.close(0)
    if thread is not None and thread.is_alive():  # a fault may have kept it from starting
        thread.join(10)  # else it would wait on, for a lock that `reset` makes again
    delivery.reset()


def _shown(result: Any) -> str:
    return f"{type(result).__qualname__} {result!r}"


@at_a_third
@pytest.mark.parametrize("call", sampled(CALLS, 12), ids=lambda call: call.__name__.strip("_"))
def test_a_fault_at_any_line_changes_no_result(call: Callable[[], Any], share: float) -> None:
    """At a third, of the lines that each call runs, every third."""
    expected = _shown(call())
    lines = [line for line in _lines_of_call(call) if not text_of(line).startswith(NOT_OURS)]
    assert len(lines) > 5
    lines = lines[:: round(1 / share)]
    missed = 0
    for line in lines:
        _forget()
        with Watch(line) as watch:
            assert _shown(call()) == expected, line
        missed += not watch.has_failed
    assert missed <= len(lines) // 20


def _lines_of_call(call: Callable[[], Any]) -> list[Line]:
    _forget()
    with Watch() as watch:
        call()
    return list(watch.lines)


def _extra() -> Any:
    asked = {**CHAT, "stream": True}
    return list(offline.openai_client().chat.completions.create(**asked))


def _async_extra() -> Any:
    async def ask() -> Any:
        asked = {**CHAT, "stream": True}
        return [
            one
            async for one in await offline.async_openai_client().chat.completions.create(**asked)
        ]

    return asyncio.run(ask())


@pytest.mark.parametrize("ask", [_extra, _async_extra])
def test_a_fault_in_what_asks_for_usage_never_reaches_the_program(ask: Callable[[], Any]) -> None:
    """At worst the program sees the one chunk that would be hidden."""
    before = capture.active
    assert before is not None
    settings = dataclasses.replace(before.settings, include_usage=True)
    every = ask()
    try:
        capture.active = Capture(settings, before.delivery)
        lines = [line for line in _lines_of_call(ask) if line[0] == extra_usage.__file__]
        lines = [line for line in lines if not text_of(line).startswith(GUARDED_WITHIN)]
        assert len(lines) > 10
        assert ask() == every[:-1]
        for line in lines:
            _forget()
            with Watch(line):
                assert ask() in (every, every[:-1]), line
    finally:
        capture.active = before


def test_every_line_that_a_call_may_run_is_covered() -> None:
    run = {line for call in CALLS for line in _lines_of_call(call)}
    names = [*("requests", "answers", "streams", "wrapping"), *FURTHER]
    files = [FOLDER / "calls.py", *(FOLDER / "hooks" / f"{name}.py" for name in names)]
    lines = {line for file in files for line in lines_of(file)}
    left_out = {text_of(line) for line in lines - run} - {"return", "return None", "continue"}
    assert {text for text in left_out if not text.startswith(NO_LINES_OF_CALLS)} == set()


def test_only_the_librarys_own_modules_are_excluded() -> None:
    for path in (Path(FOLDER) / "hooks").glob("*.py"):
        for text in map(str.strip, path.read_text().splitlines()):
            if text.startswith(NOT_OURS) and "original" in text:
                assert text.partition("original")[2].startswith("(self, *args, **kwargs)")
