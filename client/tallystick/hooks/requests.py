"""The one method that every call goes through: `request` of the libraries' base clients.

Between the guarded parts of a wrapper stands nothing but the library's own method.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import Any, Callable

from tallystick.calls import Call, begin
from tallystick.capture import note_fault
from tallystick.hooks.answers import end_or_attach, watch_parser

# The call of a subclass's own `request`, its client, and the entry that it covers. It counts unless
# a `request` that it calls in turn is hooked, too: what is nearest to the provider sees every call.
_outer: ContextVar[tuple[Call, Any, Any] | None] = ContextVar("tallystick_outer", default=None)


def wrap_request(
    library: str, original: Callable[..., Any], *, is_outer: bool = False
) -> Callable[..., Any]:
    """Wrap a `request`; with `is_outer`, one that a subclass has in front of the library's."""

    @functools.wraps(original)
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = None
        try:
            options = args[1] if len(args) > 1 else kwargs["options"]
            call = _begin(library, self, options, is_outer)
        except Exception:
            note_fault()
        try:
            answer = original(self, *args, **kwargs)
        finally:
            if is_outer:
                _leave(call)
        try:
            end_or_attach(call, answer)
        except Exception:
            note_fault()
        return answer

    return request


def wrap_async_request(
    library: str, original: Callable[..., Any], *, is_outer: bool = False
) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = None
        try:
            options = args[1] if len(args) > 1 else kwargs["options"]
            call = _begin(library, self, options, is_outer)
        except Exception:
            note_fault()
        try:
            answer = await original(self, *args, **kwargs)
        finally:
            if is_outer:
                _leave(call)
        try:
            end_or_attach(call, answer)
        except Exception:
            note_fault()
        return answer

    return request


def _begin(library: str, client: Any, options: Any, is_outer: bool) -> Call | None:
    call = begin(library, client, options)
    if call is None:
        return None
    if callable(options.__dict__.get("post_parser")):
        watch_parser(call, options)
    if call.capture.settings.include_usage:
        from tallystick.hooks.extra_usage import ask_for_usage  # few programs turn it on

        ask_for_usage(call, client, options)
    outer = _outer.get()
    if outer is not None and outer[1] is client:
        outer[0].has_ended = True
    if is_outer:
        _outer.set((call, client, outer))
    return call


def _leave(call: Call | None) -> None:
    try:
        outer = _outer.get()
        if outer is not None and outer[0] is call:
            _outer.set(outer[2])
    except Exception:
        note_fault()
