"""Tags of web requests by their route, while a response streams too; and tags in thread pools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from flask import Flask, Response, stream_with_context
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route
from werkzeug.test import Client

import tallystick
from tallystick.labels import current_session, current_tag
from tallystick.web import AsgiTags, WsgiTags, lifespan
from tests.cases import each_case
from tests.client.collector import Collector
from tests.client.offline import queued, record_calls
from tests.lazily import fastapi

# What each call would have had as its tag, in order.
seen: list[str | None] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    seen.clear()


def _call() -> None:
    seen.append(current_tag())


async def _request(app: Any, path: str, method: str = "GET") -> bytes:
    scope = {
        **{"type": "http", "method": method, "path": path, "raw_path": path.encode()},
        **{"query_string": b"", "headers": [], "root_path": "", "scheme": "http"},
        **{"http_version": "1.1", "server": ("t", 80), "client": ("t", 1), "asgi": {}},
    }
    body: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if body:
            await asyncio.sleep(60)
        body.append(b"")
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        body.append(message.get("body", b""))

    await app(scope, receive, send)
    return b"".join(body)


def _fastapi() -> fastapi.FastAPI:
    app, router = fastapi.FastAPI(), fastapi.APIRouter(prefix="/users")

    @router.get("/{user_id}/chat")
    def chat(user_id: str) -> str:
        _call()
        return user_id

    @app.post("/stream/{name:path}")
    async def stream(name: str) -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(2):
                _call()
                await asyncio.sleep(0)
                yield b"."

        def plain() -> Iterator[bytes]:
            _call()
            yield b"."

        content: Any = pieces() if name == "async/one" else plain()
        return StreamingResponse(content, background=BackgroundTask(_call))

    @app.get("/own")
    async def own() -> None:
        with tallystick.tag("own"):
            _call()
        _call()

    app.include_router(router)
    return app


def _starlette() -> Starlette:
    async def endpoint(request: Any) -> PlainTextResponse:
        _call()
        return PlainTextResponse("")

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        _call()
        await PlainTextResponse("")(scope, receive, send)

    class Mounted:
        __call__ = staticmethod(mounted)

    return Starlette(
        routes=[
            Route("/", endpoint),
            Route("/items/{item}/items/{number:int}", endpoint),
            Mount(
                "/api/{tenant}",
                routes=[Route("/plain", endpoint), Route("/dates/{number:float}", endpoint)],
            ),
            Mount("/raw", app=Mounted()),
        ]
    )


def _flask() -> Flask:
    app = Flask("web")

    @app.get("/users/<user>/chat")
    def chat(user: str) -> str:
        _call()
        return user

    @app.get("/stream/<int:number>")
    def stream(number: int) -> Response:
        def pieces() -> Iterator[bytes]:
            try:
                for _ in range(number):
                    _call()
                    yield b"."
            finally:
                _call()

        return Response(stream_with_context(pieces()))

    return app


@each_case(
    ("make", "asked", "tags"),
    [
        (_fastapi, "GET /users/jane/chat", ["GET /users/{user_id}/chat"]),
        (_fastapi, "POST /stream/async/one", ["POST /stream/{name}"] * 3),
        (_fastapi, "POST /stream/sync/one", ["POST /stream/{name}"] * 2),
        (_fastapi, "GET /own", ["own", "GET /own"]),
        (_fastapi, "GET /none/jane", []),
        (_starlette, "GET /", ["GET /"]),
        (_starlette, "GET /items/7/items/7", ["GET /items/{item}/items/{number}"]),
        (_starlette, "GET /items/items/items/7", ["GET /items/{item}/items/{number}"]),
        (_starlette, "GET /api/acme/plain", ["GET /api/{tenant}/plain"]),
        # A value that is not in the path as it is.
        (_starlette, "GET /api/acme/dates/1.50", ["GET /dates/{number}"]),
        (_starlette, "GET /raw/jane", ["GET /raw/{path}"]),
        (_flask, "GET /users/jane/chat", ["GET /users/<user>/chat"]),
        (_flask, "GET /stream/2", ["GET /stream/<int:number>"] * 3),
        (_flask, "GET /none/jane", []),
    ],
)
def test_calls_have_the_route_of_their_framework(
    make: Callable[[], Any], asked: str, tags: list[str]
) -> None:
    seen.clear()
    app, (method, path) = make(), asked.split()
    if isinstance(app, Flask):
        with Client(WsgiTags(app.wsgi_app)).get(path) as response:
            response.get_data()
    else:
        asyncio.run(_request(AsgiTags(app), path, method))
    assert seen == tags
    assert current_tag() is None


def test_requests_at_once_keep_their_tags() -> None:
    app = AsgiTags(_fastapi())

    async def both() -> None:
        await asyncio.gather(*(_request(app, "/stream/async/one", "POST") for _ in range(5)),
                             *(_request(app, "/own") for _ in range(5)))  # fmt: skip

    asyncio.run(both())
    assert len(seen) == 25
    assert sum(tag == "GET /own" for tag in seen) == 5


def test_the_tag_can_be_chosen() -> None:
    asyncio.run(_request(AsgiTags(_fastapi(), tag="all"), "/own"))
    asyncio.run(_request(AsgiTags(_fastapi(), tag=lambda scope: scope["path"][1:]), "/own"))
    asyncio.run(_request(AsgiTags(_fastapi(), tag=lambda scope: scope["none"]), "/own"))
    assert seen == ["own", "all", "own", "own", "own", None]


def test_a_response_that_is_left_early_is_closed_within_its_tag() -> None:
    with Client(WsgiTags(_flask().wsgi_app)).get("/stream/5", buffered=False) as response:
        next(response.response)  # type: ignore[call-overload]
        assert current_tag() is None
    assert set(seen) == {"GET /stream/<int:number>"}


def test_a_response_that_is_a_list_stays_one() -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        _call()
        return [b"whole"]

    assert WsgiTags(app, tag="fixed")({}, None) == [b"whole"]
    assert WsgiTags(app)({}, None) == [b"whole"]
    assert seen == ["fixed", None]


def test_an_application_sends_its_queue_when_it_stops(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    monkeypatch.setenv("SERVICE_DSN", collector.dsn)

    async def live() -> None:
        async with lifespan(None):
            record_calls(2)

    asyncio.run(live())
    tallystick.close(0)
    assert len(collector.records) == 2


def test_a_lifespan_of_fastapi_runs_it(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    monkeypatch.setenv("SERVICE_DSN", collector.dsn)
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    states = []

    async def receive() -> dict[str, Any]:
        states.append(bool(tallystick.stats()))
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        states.append(message["type"])

    app = AsgiTags(fastapi.FastAPI(lifespan=lifespan))
    with suppress(asyncio.CancelledError):
        asyncio.run(app({"type": "lifespan", "state": {}}, receive, send))  # type: ignore[arg-type]
    tallystick.close(0)
    assert states == [False, "lifespan.startup.complete", True, "lifespan.shutdown.complete"]


def test_labels_go_into_a_thread_pool() -> None:
    def ask(number: int) -> tuple[int, str | None, str | None]:
        time.sleep(0.001)
        return number, current_tag(), current_session()

    with ThreadPoolExecutor(2) as pool:
        with tallystick.tag("batch"), tallystick.session("s-1"):
            kept = list(pool.map(tallystick.keep_labels(ask), range(20)))
            lost = pool.submit(ask, 0).result()
        after = pool.submit(ask, 0).result()
    assert kept == [(number, "batch", "s-1") for number in range(20)]
    assert lost == after == (0, None, None)


def test_labels_that_are_kept_end_with_an_error() -> None:
    @tallystick.keep_labels
    def fail() -> None:
        """Fail."""
        raise KeyError

    assert fail.__doc__ == "Fail."
    with tallystick.tag("outer"):
        with pytest.raises(KeyError):
            fail()
        assert current_tag() == "outer"


def test_records_have_the_tag_of_their_request_in_a_thread_pool_too(captured: None) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        record_calls()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(tallystick.keep_labels(record_calls)).result()

    asyncio.run(_request(AsgiTags(app, tag=lambda scope: "x" * 200), "/"))
    assert [record["tag"] for record in queued()] == ["x" * 120] * 2
