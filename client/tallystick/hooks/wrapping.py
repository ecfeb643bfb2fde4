"""Wrap a library's method, or the items of its stream.

Nothing here raises, and nothing of ours stands between these parts and the library's own method.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.capture import note_fault

Begin = Callable[[Any, Any, Any], Any]
End = Callable[[Any, Any], Any]


def around(
    begin: Begin, end: End, *, is_async: bool = False, leave: Callable[[Any], None] | None = None
) -> Callable[..., Any]:
    """Return what wraps a method: `begin` gets its object and arguments, and `end` its answer.

    `end` also gets what `begin` returned, and isn't called if that is None. What it returns, if
    anything, stands in the place of the answer. `leave` is called even if the method fails.
    """

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            begun = guarded(begin, self, args, kwargs)
            try:
                answer = original(self, *args, **kwargs)
            finally:
                if leave is not None:
                    guarded(leave, begun)
            return answer if begun is None else finish(end, begun, answer)

        @functools.wraps(original)
        async def async_method(self: Any, *args: Any, **kwargs: Any) -> Any:
            begun = guarded(begin, self, args, kwargs)
            try:
                answer = await original(self, *args, **kwargs)
            finally:
                if leave is not None:
                    guarded(leave, begun)
            return answer if begun is None else finish(end, begun, answer)

        return async_method if is_async else method

    return wrap


def guarded(act: Callable[..., Any], *args: Any) -> Any:
    """Return what the function returns, or None if it fails."""
    try:
        return act(*args)
    except Exception:
        note_fault()
        return None


def finish(end: End, begun: Any, answer: Any) -> Any:
    """Return what takes the place of the answer, most often the answer itself."""
    changed = guarded(end, begun, answer)
    return answer if changed is None else changed


class Watch:
    """Sees the items of a stream for its call."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call = call

    def see(self, item: Any) -> None:
        """See an item before the program does."""

    def see_end(self) -> None:
        """Note that the stream has come to its end."""

    def end(self) -> None:
        """End the call, whatever ended the stream; never raises."""
        self.call.end()


def watched(items: Iterator[Any], watch: Watch) -> Iterator[Any]:
    """Yield the items of a stream, whose end ends the call."""
    see = watch.see
    try:
        for item in items:
            try:
                see(item)
            except Exception:
                note_fault()
            yield item
        guarded(watch.see_end)
    except Exception:
        watch.call.status = "error"
        raise
    finally:  # whatever ended it: its end, a failure, its collection
        watch.end()


async def watched_async(items: AsyncIterator[Any], watch: Watch) -> AsyncIterator[Any]:
    """Yield the same of an asynchronous stream; its event loop closes a dropped one."""
    see = watch.see
    try:
        async for item in items:
            try:
                see(item)
            except Exception:
                note_fault()
            yield item
        guarded(watch.see_end)
    except Exception:
        watch.call.status = "error"
        raise
    finally:
        watch.end()
