"""Short texts of a record: the current tag and session, and cleaning of labels."""

from __future__ import annotations

import re
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar

MAX_TAG = 120
MAX_LABEL = 200
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")

_Function = TypeVar("_Function", bound=Callable[..., Any])
# Each entry holds the one that it covers, so that leaving needs no token: tokens cannot be used in
# another context, and generators and tasks are left in other contexts than they were entered in.
# It also holds the tag that entered it, since a generator may be closed within a tag of its caller.
_Entry = tuple[Any, Optional[Any], object]
entered: ContextVar[_Entry | None] = ContextVar("tallystick_tag", default=None)
sessions: ContextVar[_Entry | None] = ContextVar("tallystick_session", default=None)


class tag:
    """Label the calls made inside, as a context manager or as a decorator.

    The innermost tag counts. It follows the calls of a task and of `asyncio.to_thread`; a decorated
    generator or coroutine function has it whenever its own body runs, and its caller never.
    """

    __slots__ = ("_label",)
    _entered = entered

    def __init__(self, label: str | None) -> None:
        self._label = clean_tag(label)

    def __enter__(self) -> tag:
        self._entered.set((self._label, self._entered.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Leave the innermost entry of this tag.
        entry, above = self._entered.get(), list[_Entry]()
        while entry is not None and entry[2] is not self:
            above.append(entry)
            entry = entry[1]
        if entry is None:  # entered in another context
            inner = above[0] if above else None
        else:
            inner = entry[1]
            for label, _, other in reversed(above):
                inner = (label, inner, other)
        self._entered.set(inner)

    def __call__(self, function: _Function) -> _Function:
        # `inspect`, which it needs, would take longer to import than all the rest together.
        from tallystick.labels.decorating import decorate

        return decorate(self, function)


class session(tag):
    """Give the calls made inside the ID of a session or conversation, in the ways of `tag`."""

    __slots__ = ()
    _entered = sessions

    def __init__(self, session_id: str | None) -> None:
        self._label = clean_label(session_id)


def current_session() -> str | None:
    entry = sessions.get()
    return entry[0] if entry is not None else None


def current_tag() -> str | None:
    entry = entered.get()
    if entry is None:
        return None
    label: Any = entry[0]
    if label.__class__ is not str and label is not None:
        label = label()  # that of a web request, whose route is known by now
    found: str | None = label
    return found


def keep_labels(function: _Function) -> _Function:
    """Give calls of the function the tag and session of here, in whichever thread it runs."""
    from tallystick.labels.decorating import keep

    return keep(((entered, entered.get()), (sessions, sessions.get())), function)


def clean_tag(label: object) -> str | None:
    return clean_label(label, MAX_TAG)


def clean_label(label: object, longest: int = MAX_LABEL) -> str | None:
    """Remove characters that the service would reject; return None if nothing is left.

    One rejected record would lose its whole batch.
    """
    if not isinstance(label, str):
        return None
    if not label.isprintable():
        label = _REFUSED.sub("", label)
    return label[:longest] or None
