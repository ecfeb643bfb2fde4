"""Tags by route for web applications: middleware for ASGI and WSGI, and a lifespan.

The tag is the template of a route, such as `POST /chats/{id}`, and never the path of a request, in
which there may be names or text. A router knows its template when the application makes its calls,
not when the middleware is called: so the tag is looked up when it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from types import FunctionType
from typing import Any, Callable, Optional, Union

from tallystick.capture import note_fault
from tallystick.client import flush, init
from tallystick.labels import clean_tag, tag

Scope = MutableMapping[str, Any]
# A text for all requests, or a function of the ASGI scope or the WSGI environment.
Tag = Union[str, Callable[[Any], Optional[str]], None]
_REQUESTS = ("http", "websocket")
_SHUTDOWN_SECONDS = 5.0


class AsgiTags:
    """ASGI middleware: tags the calls of a request with its route, while it streams too.

    `tag` replaces the route: a text, or a function of the scope that is called for each call of
    the request.
    """

    def __init__(self, app: Any, tag: Tag = None) -> None:
        self.app = app
        self._tag = tag

    def __call__(self, scope: Scope, receive: Any, send: Any) -> Awaitable[None]:
        if scope.get("type") not in _REQUESTS:
            awaited: Awaitable[None] = self.app(scope, receive, send)
            return awaited
        return self._call(scope, receive, send)

    async def _call(self, scope: Scope, receive: Any, send: Any) -> None:
        with _RequestTag(self._tag, scope, _asgi_route):
            await self.app(scope, receive, send)


class WsgiTags:
    """WSGI middleware: tags the calls of a request with its route, while it streams too.

    It finds the routes of Flask and Bottle. `tag` replaces the route: a text, or a function of the
    environment that is called for each call of the request, and when its response starts.
    """

    def __init__(self, app: Any, tag: Tag = None) -> None:
        self.app = app
        self._tag = tag

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        label = _RequestTag(self._tag, environ, _wsgi_route)

        def start(*arguments: Any, **named: Any) -> Any:
            label.keep()  # Flask takes its request out of the environment before it streams
            return start_response(*arguments, **named)

        with label:
            response: Iterable[bytes] = self.app(environ, start)
        if isinstance(response, (list, tuple)):
            return response
        return _TaggedResponse(label, response)


@asynccontextmanager
async def lifespan(app: object = None) -> AsyncIterator[None]:
    """Turn capture on when an application starts, and send the queue when it stops."""
    init()
    try:
        yield
    finally:
        await asyncio.get_running_loop().run_in_executor(None, flush, _SHUTDOWN_SECONDS)


class _RequestTag(tag):
    """A tag that is looked up when a call needs it."""

    __slots__ = ("_find", "_given", "_request")
    _label: Any

    def __init__(self, given: Tag, request: Any, find: Callable[[Any], str | None]) -> None:
        self._given = given
        self._request = request
        self._find = find
        self._label = clean_tag(given) if isinstance(given, str) else self._look_up

    def keep(self) -> None:
        """Look it up for the last time."""
        if not isinstance(self._given, str):
            self._label = self._look_up()

    def _look_up(self) -> str | None:
        try:
            find = self._given if callable(self._given) else self._find
            return clean_tag(find(self._request))
        except Exception:  # an application's function must not stop its call
            note_fault()
            return None


class _TaggedResponse:
    """A response that is made within the tag, one piece at a time."""

    def __init__(self, label: tag, response: Iterable[bytes]) -> None:
        self._label = label
        self._response = response
        self._pieces = iter(response)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._label:
            return next(self._pieces)

    def close(self) -> None:
        close = getattr(self._response, "close", None)
        if close is not None:
            with self._label:
                close()


def _asgi_route(scope: Scope) -> str | None:
    """Return the method and the route of FastAPI or Starlette, which write it into the scope."""
    route = scope.get("route")
    template = getattr(route, "path_format", None) or getattr(route, "path", None)
    is_mounted = scope.get("app_root_path", scope.get("root_path")) != scope.get("root_path")
    has_endpoint = isinstance(scope.get("endpoint"), (FunctionType, type))
    if has_endpoint and (template is None or is_mounted):  # that of the part would be ambiguous
        done, path = "", scope.get("path", "")
        for name, value in (scope.get("path_params") or {}).items():
            before, found, path = f"{path}/".partition(f"/{value}/")
            if not found:
                break
            done, path = f"{done}{before}/{{{name}}}", f"/{path}".rstrip("/")
        else:  # the path has all of them, and their names for their values
            template = done + path or "/"
    if not isinstance(template, str):
        return None
    return f"{scope.get('method', 'WEBSOCKET')} {template}"


def _wsgi_route(environ: dict[str, Any]) -> str | None:
    """Return the method and the route of Flask or Bottle, which the environment leads to."""
    rule = getattr(getattr(environ.get("werkzeug.request"), "url_rule", None), "rule", None)
    rule = rule or getattr(environ.get("bottle.route"), "rule", None)
    return f"{environ.get('REQUEST_METHOD', '')} {rule}" if isinstance(rule, str) else None
