"""Streams, watched from within: the iterator that a stream draws from, never the stream itself."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.capture import note_fault


def follow(call: Call, stream: Any) -> None:
    """Put a watching iterator in the place of the stream's own."""
    items = stream._iterator
    call.headers = stream.response.headers
    watch = _AsyncWatch if hasattr(items, "__anext__") else _Watch
    stream._iterator = watch(items, call)
    call.open()


class _Watched:
    """Whatever else is asked of the iterator goes to the one inside."""

    __slots__ = ("__weakref__", "_call", "_items", "_next")

    def __init__(self, items: Any, call: Call) -> None:
        self._items = items
        self._call = call
        self._next = items.__anext__ if hasattr(items, "__anext__") else items.__next__

    def __getattr__(self, name: str) -> Any:
        if name in _Watched.__slots__:  # it was never whole
            raise AttributeError(name)
        return getattr(self._items, name)

    def __del__(self) -> None:
        try:
            self._call.end()
        except Exception:
            note_fault()


class _Watch(_Watched):
    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        """A generator, which a loop goes through faster than through `__next__`."""
        try:
            for item in self._items:
                try:
                    members = item.__dict__
                    # Most events have none of the three, and are not worth a call.
                    if (
                        members.get("usage") is not None
                        or "response" in members
                        or "message" in members
                        or item.__pydantic_extra__
                    ):
                        self._call.see(item)
                except AttributeError:
                    _see(self._call, item)
                except Exception:
                    note_fault()
                yield item
        except GeneratorExit:  # a loop that was left, perhaps for another that goes on
            raise
        except BaseException:
            _end(self._call)
            raise
        _end(self._call)

    def __next__(self) -> Any:
        try:
            item = self._next()
        except BaseException:  # its end, too, comes as an exception
            _end(self._call)
            raise
        try:
            self._call.see(item)
        except Exception:
            note_fault()
        return item


class _AsyncWatch(_Watched):
    __slots__ = ()

    def __aiter__(self) -> _AsyncWatch:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._next()
        except BaseException:  # its end and its cancellation, too
            _end(self._call)
            raise
        try:
            self._call.see(item)
        except Exception:
            note_fault()
        return item


def _see(call: Call, item: Any) -> None:
    """An event that is no model: a mapping, or nothing that is known."""
    try:
        call.see(item)
    except Exception:
        note_fault()


def _end(call: Call) -> None:
    try:
        call.end()
    except Exception:
        note_fault()


def wrap_close(library: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """A stream that is closed is over, however long it is kept."""

    @functools.wraps(original)
    def close(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            _end_stream(self)
        except Exception:
            note_fault()
        return original(self, *args, **kwargs)

    return close


def wrap_async_close(library: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def close(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            _end_stream(self)
        except Exception:
            note_fault()
        return await original(self, *args, **kwargs)

    return close


def _end_stream(stream: Any) -> None:
    iterator = stream.__dict__.get("_iterator")
    if isinstance(iterator, _Watched):
        iterator._call.end()
