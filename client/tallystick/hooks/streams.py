"""Streams, watched from within: the iterator that a stream draws from, never the stream itself."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.capture import note_fault

# What events of a class may hold, and of most there are many: nothing that is counted; a `usage`
# of their own; or whatever else.
_IDLE, _TELLING, _OTHER = "idle", "telling", "other"
_REMEMBERED = 256

_roles: dict[type, str] = {}


def follow(call: Call, stream: Any) -> None:
    """Put a watching iterator in the place of the stream's own."""
    items = stream._iterator
    watch = _AsyncWatch if hasattr(items, "__anext__") else _Watch
    call.open(stream.response.headers)
    stream._iterator = watch(items, call)


class _Watched:
    """Whatever else is asked of the iterator goes to the one inside."""

    __slots__ = ("__weakref__", "_call", "_idle", "_items", "_next", "_telling")

    def __init__(self, items: Any, call: Call) -> None:
        self._items = items
        self._call = call
        self._next = items.__anext__ if hasattr(items, "__anext__") else items.__next__
        # The classes of events that came last and need no closer look, or only one at their usage.
        self._idle: type | None = None
        self._telling: type | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _Watched.__slots__:  # it was never whole
            raise AttributeError(name)
        return getattr(self._items, name)

    def __del__(self) -> None:
        try:
            self._call.end()
        except Exception:
            note_fault()

    def _look(self, item: Any) -> None:
        """At an event, and whether others of its class can be passed over from now on."""
        self._call.see(item)
        kind = type(item)
        role = _roles.get(kind)
        if role is None:
            if len(_roles) >= _REMEMBERED:
                _roles.clear()
            role = _roles[kind] = _role_of(item)
        if role is _IDLE:
            self._idle = kind
        elif role is _TELLING:
            self._telling = kind


def _role_of(item: Any) -> str:
    """By the first one. Only the vendors' own pieces of text are passed over unseen."""
    kind = type(item)
    if "usage" in getattr(item, "__dict__", ()):
        return _TELLING
    is_vendors = kind.__module__.startswith(("openai.types.", "anthropic.types."))
    return _IDLE if is_vendors and kind.__name__.endswith("DeltaEvent") else _OTHER


class _Watch(_Watched):
    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        """A generator, which a loop goes through faster than through `__next__`."""
        try:
            for item in self._items:
                try:
                    kind = type(item)
                    if kind is not self._idle and (
                        kind is not self._telling or item.usage is not None
                    ):
                        self._look(item)
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
            kind = type(item)
            if kind is not self._idle and (kind is not self._telling or item.usage is not None):
                self._look(item)
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
            kind = type(item)
            if kind is not self._idle and (kind is not self._telling or item.usage is not None):
                self._look(item)
        except Exception:
            note_fault()
        return item


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
