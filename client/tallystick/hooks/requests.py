"""The one method that every call goes through: `request` of the libraries' base clients.

Between the guarded parts of a wrapper stands nothing but the library's own method.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from tallystick.calls import begin
from tallystick.capture import note_fault
from tallystick.hooks.answers import end_or_attach, watch_parser


def wrap_request(library: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = None
        try:
            options = args[1] if len(args) > 1 else kwargs["options"]
            call = begin(library, self, options)
            if call is not None and callable(options.__dict__.get("post_parser")):
                watch_parser(call, options)
        except Exception:
            note_fault()
        answer = original(self, *args, **kwargs)
        try:
            end_or_attach(call, answer)
        except Exception:
            note_fault()
        return answer

    return request


def wrap_async_request(library: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = None
        try:
            options = args[1] if len(args) > 1 else kwargs["options"]
            call = begin(library, self, options)
            if call is not None and callable(options.__dict__.get("post_parser")):
                watch_parser(call, options)
        except Exception:
            note_fault()
        answer = await original(self, *args, **kwargs)
        try:
            end_or_attach(call, answer)
        except Exception:
            note_fault()
        return answer

    return request
