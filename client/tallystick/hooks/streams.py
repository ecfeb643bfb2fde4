"""Streams, watched from within: the iterator that a stream draws from, never the stream itself."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import GeneratorType
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.capture import note_fault

# What events of a class may hold, and of most there are many: nothing that is counted; a `usage`
# of their own; or whatever else.
_IDLE, _TELLING, _OTHER = "idle", "telling", "other"
_HOLDERS = ("response", "message")
_REMEMBERED = 256
# On the stream itself, for whoever closes it.
_FOLLOWED = "_tallystick_call"

_roles: dict[type, str] = {}


def follow(call: Call, stream: Any) -> None:
    """Put a watching iterator in the place of the stream's own: a generator for a generator."""
    if call.has_ended:
        return
    call.arrived(stream.response.headers, is_stream=True)
    items = stream._iterator
    setattr(stream, _FOLLOWED, call)
    if type(items) is GeneratorType:
        stream._iterator = _watched(items, call)
    elif hasattr(items, "__anext__"):
        stream._iterator = _AsyncWatch(items, call, items.__anext__)
    else:
        stream._iterator = _Watch(items, call, items.__next__)


def _watched(items: Iterator[Any], call: Call) -> Iterator[Any]:
    # The classes of events that came last and need no closer look, or only one at their usage.
    idle = telling = None
    try:
        for item in items:
            try:
                kind = type(item)
                if kind is telling:
                    usage = item.usage
                    if usage is not None:
                        call.take(usage, item.__dict__.get("model"))
                elif kind is idle:
                    pass
                elif _roles.get(kind) is _IDLE:
                    idle = kind
                elif _look(call, item) is _TELLING:
                    telling = kind
            except Exception:
                note_fault()
            yield item
    finally:  # whatever ended it: its end, a failure, its collection
        try:
            call.end()
        except Exception:
            note_fault()


def _look(call: Call, item: Any) -> str:
    """At an event, unless others of its class have shown what it may hold; the class's role."""
    kind = type(item)
    role = _roles.get(kind)
    if role is None:
        if len(_roles) >= _REMEMBERED:
            _roles.clear()
        call.see(item)
        role = _roles[kind] = _role_of(item)
    elif role is _OTHER or (role is _TELLING and item.usage is not None):
        call.see(item)
    return role


def _role_of(item: Any) -> str:
    """By the first one. Only the vendors' own events are passed over unseen."""
    members = getattr(item, "__dict__", ())
    if "usage" in members:
        return _TELLING
    is_vendors = type(item).__module__.startswith(("openai.types.", "anthropic.types."))
    return _IDLE if is_vendors and not any(name in members for name in _HOLDERS) else _OTHER


class _Watch:
    """Whatever else is asked of the iterator goes to the one inside."""

    __slots__ = ("__weakref__", "_call", "_idle", "_items", "_next", "_telling")

    def __init__(self, items: Any, call: Call, next_item: Callable[[], Any]) -> None:
        self._items = items
        self._call = call
        self._next = next_item
        self._idle: type | None = None
        self._telling: type | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _Watch.__slots__:  # it was never whole
            raise AttributeError(name)
        return getattr(self._items, name)

    def __del__(self) -> None:
        try:
            self._call.end()
        except Exception:
            note_fault()

    def __iter__(self) -> _Watch:
        return self

    def __next__(self) -> Any:
        try:
            item = self._next()
        except BaseException:  # its end, too, comes as an exception
            _end(self._call)
            raise
        try:
            _look(self._call, item)
        except Exception:
            note_fault()
        return item


class _AsyncWatch(_Watch):
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
            if kind is self._telling:
                usage = item.usage
                if usage is not None:
                    self._call.take(usage, item.__dict__.get("model"))
            elif kind is self._idle:
                pass
            elif _roles.get(kind) is _IDLE:
                self._idle = kind
            elif _look(self._call, item) is _TELLING:
                self._telling = kind
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
    call = stream.__dict__.get(_FOLLOWED)
    if call is not None:
        call.end()
