"""The one method that every call goes through: `request` of the libraries' base clients.

Between the guarded parts of a wrapper stands nothing but the library's own method.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import Any, Callable

from tallystick.calls import Call, begin
from tallystick.hooks.answers import end_or_attach, watch_parser
from tallystick.hooks.wrapping import around

# The call of a subclass's own `request`, its client, and the entry that it covers. It counts unless
# a `request` that it calls in turn is hooked, too: what is nearest to the provider sees every call.
_outer: ContextVar[tuple[Call, Any, Any] | None] = ContextVar("tallystick_outer", default=None)


def wrap_request(
    library: str, original: Callable[..., Any], *, is_outer: bool = False, is_async: bool = False
) -> Callable[..., Any]:
    """Wrap a `request`; with `is_outer`, one that a subclass has in front of the library's."""
    wrapper: Callable[..., Any] = around(
        functools.partial(_begin, library, is_outer),
        lambda call, answer: end_or_attach(call, answer),
        is_async=is_async,
        leave=_leave if is_outer else None,
    )(original)
    return wrapper


def _begin(library: str, is_outer: bool, client: Any, args: Any, kwargs: Any) -> Call | None:
    options = args[1] if len(args) > 1 else kwargs["options"]
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
    outer = _outer.get()
    if outer is not None and outer[0] is call:
        _outer.set(outer[2])
