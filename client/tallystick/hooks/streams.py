"""Watch a stream's underlying iterator, never the stream itself."""

from __future__ import annotations

from types import AsyncGeneratorType, GeneratorType
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.hooks.wrapping import Watch, around, watched, watched_async
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
    watch = (_Chunks if is_completion else _Events)(call)
    if kind is AsyncGeneratorType or (kind is not GeneratorType and hasattr(items, "__aiter__")):
        stream._iterator = watched_async(items, watch)
    else:
        stream._iterator = watched(items, watch)
    if call.hides_usage:
        from tallystick.hooks.extra_usage import hide

        stream._iterator = hide(stream._iterator)


class _Chunks(Watch):
    """Of a completion: all of one class, each may have a usage."""

    __slots__ = ("_last",)

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._last: Any = None

    def see(self, item: Any) -> None:
        self._last = item
        try:
            usage = item.usage
            if usage is not None:
                self.call.take_chunk(usage, item)
        except AttributeError:  # not the library's own class
            self.call.see(item)

    def see_end(self) -> None:
        self.call.see_last(self._last)


class _Events(Watch):
    """Of many classes, few of which have a usage."""

    __slots__ = ()

    def see(self, item: Any) -> None:
        if type(item) in _silent:
            return
        try:
            members = item.__dict__
        except AttributeError:
            members = members_of(item)
        if "usage" in members or "message" in members or "response" in members:
            self.call.see(item)
            return
        declared = getattr(type(item), "model_fields", None)
        if not declared or any(map(declared.__contains__, _HOLDERS)):
            return
        if len(_silent) < _REMEMBERED:
            _silent.add(type(item))  # a class whose events cannot have a usage


def _follow_again(helper: Any, _: Any) -> None:
    """Follow the second stream of the same response, which helpers of older libraries make."""
    stream = helper.__dict__.get("_raw_stream")
    call = stream and stream.response.__dict__.get("_tallystick_call")
    if call is not None and "_tallystick_call" not in stream.__dict__:
        follow(call, stream)


def wrap_helper(library: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the making of a helper."""
    wrapper: Callable[..., Any] = around(lambda helper, *_: helper, _follow_again)(original)
    return wrapper


def wrap_close(
    library: str, original: Callable[..., Any], *, is_async: bool = False
) -> Callable[..., Any]:
    """Wrap `close` to end the stream's call."""
    wrap = around(lambda stream, *_: _end_stream(stream), lambda *_: None, is_async=is_async)
    wrapper: Callable[..., Any] = wrap(original)
    return wrapper


def _end_stream(stream: Any) -> None:
    call = stream.__dict__.get("_tallystick_call")
    if call is not None:
        call.end()
