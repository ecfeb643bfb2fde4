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
from tests.cases import data_of
from tests.client import offline
from tests.client.collector import refusing_dsn
from tests.client.faults import FOLDER, Line, Watch, asking, lines_of, text_of
from tests.client.kinds import CALLS, FURTHER
from tests.client.styles import CHAT
from tests.worker.support.promises import at_a_sixth, sampled

NOT_OURS, NO_LINES_OF_CALLS = map(tuple, data_of(__file__).values())
# Of `extra_usage.py`: what cannot fail, and what the library's own streams do.
GUARDED_WITHIN: Final = (
    *(*NOT_OURS, "if not _is_extra(", "chunks.close()", "await chunks.aclose()"),
    *("for chunk in chunks:", "async for chunk in chunks:", "yield chunk"),
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


@at_a_sixth
@pytest.mark.parametrize("call", sampled(CALLS, 12), ids=lambda call: call.__name__.strip("_"))
def test_a_fault_at_any_line_changes_no_result(call: Callable[[], Any], share: float) -> None:
    """At a sixth, of the lines that each call runs, every sixth."""
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
