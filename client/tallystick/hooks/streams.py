"""Watch a stream's underlying iterator, never the stream itself."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.capture import note_fault
from tallystick.reading.usage.reader import members_of

_COMPLETIONS = ("chat/completions", "completions")
_HOLDERS = ("usage", "message", "response")
# Classes of events that have no member for a usage: most events of a stream are of these.
_silent: set[type] = set()
_REMEMBERED = 256


def follow(call: Call, stream: Any) -> None:
    """Put a watching generator in the place of the stream's own iterator."""
    if call.has_ended:
        return
    response = stream.response
    if call.library == "anthropic":
        response._tallystick_call = call  # for `wrap_helper`
    call.arrived(response.headers, True)
    stream._tallystick_call = call  # for `close`
    items = stream._iterator
    kind = type(items)
    # Groq's chunks may have their usage in a member of theirs.
    is_completion = call.endpoint in _COMPLETIONS and call.library != "groq"
    if kind is AsyncGeneratorType or (kind is not GeneratorType and hasattr(items, "__aiter__")):
        stream._iterator = (_async_chunks if is_completion else _async_events)(items, call)
    else:
        stream._iterator = (_chunks if is_completion else _events)(items, call)
    if call.hides_usage:
        from tallystick.hooks.extra_usage import hide

        stream._iterator = hide(stream._iterator)


# Four times the same, since a function that they share would be called for every event.


def _chunks(items: Any, call: Call) -> Iterator[Any]:
    """Watch completion chunks: all of one class, each may have a usage."""
    item = None
    try:
        for item in items:
            try:
                try:
                    usage = item.usage
                    if usage is not None:
                        call.take_chunk(usage, item)
                except AttributeError:  # not the library's own class
                    call.see(item)
            except Exception:
                note_fault()
            yield item
        call.see_last(item)
    except Exception:
        call.status = "error"
        raise
    finally:  # whatever ended it: its end, a failure, its collection
        call.end()


def _events(items: Any, call: Call) -> Iterator[Any]:
    """Watch events of many classes, few of which have a usage."""
    try:
        for item in items:
            try:
                if type(item) not in _silent:
                    _look_at(call, item)
            except Exception:
                note_fault()
            yield item
    except Exception:
        call.status = "error"
        raise
    finally:
        call.end()


async def _async_chunks(items: Any, call: Call) -> AsyncIterator[Any]:
    """Watch completion chunks; the event loop closes a dropped stream."""
    item = None
    try:
        async for item in items:
            try:
                try:
                    usage = item.usage
                    if usage is not None:
                        call.take_chunk(usage, item)
                except AttributeError:  # not the library's own class
                    call.see(item)
            except Exception:
                note_fault()
            yield item
        call.see_last(item)
    except Exception:
        call.status = "error"
        raise
    finally:
        call.end()


async def _async_events(items: Any, call: Call) -> AsyncIterator[Any]:
    try:
        async for item in items:
            try:
                if type(item) not in _silent:
                    _look_at(call, item)
            except Exception:
                note_fault()
            yield item
    except Exception:
        call.status = "error"
        raise
    finally:
        call.end()


def _look_at(call: Call, item: Any) -> None:
    """See an event that may have a usage, and remember a class whose events cannot."""
    try:
        members = item.__dict__
    except AttributeError:
        members = members_of(item)
    if "usage" in members or "message" in members or "response" in members:
        call.see(item)
        return
    declared = getattr(type(item), "model_fields", None)
    if declared and len(_silent) < _REMEMBERED and not any(map(declared.__contains__, _HOLDERS)):
        _silent.add(type(item))


def wrap_helper(library: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the making of a helper: older libraries' make a second stream of the same response."""

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            stream = self.__dict__.get("_raw_stream")
            call = stream and stream.response.__dict__.get("_tallystick_call")
            if call is not None and "_tallystick_call" not in stream.__dict__:
                follow(call, stream)
        except Exception:
            note_fault()

    return __init__


def wrap_close(library: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `close` to end the stream's call."""

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
    call = stream.__dict__.get("_tallystick_call")
    if call is not None:
        call.end()
