"""The providers' libraries with the providers in the same process, for tests that make many calls.

Each client is made once: making one takes far longer than its calls do.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2

import tallystick
from tallystick import capture
from tallystick.sending.records import write_record
from tests.client import provider_stub
from tests.client.provider_stub import Event, Json
from tests.lazily import anthropic, openai

Handler = Callable[[httpx2.Request], httpx2.Response]
HEADERS = {"x-request-id": "req_1", "request-id": "req_1"}


def answer(request: httpx2.Request) -> httpx2.Response:
    """What the providers' server would say to this request."""
    body = json.loads(request.content) if request.content else {}
    path = request.url.path
    if path.endswith("/messages"):
        return _say(body, provider_stub.message(), provider_stub.messages_events())
    if path.endswith("/chat/completions"):
        return _say(body, provider_stub.completion(), provider_stub.chat_events(with_usage=True))
    if path.endswith("/embeddings"):
        return say(provider_stub.document("embeddings"))
    if path.endswith("/responses"):
        return _say(
            body, provider_stub.response("resp_1", "completed"), provider_stub.responses_events()
        )
    status = "queued" if path.endswith("/responses/resp_bg1/cancel") else "completed"
    return say(provider_stub.response(path.rpartition("/")[2], status))


def _say(body: Json, whole: Json, events: list[Event]) -> httpx2.Response:
    return stream(events) if body.get("stream") else say(whole)


def say(document: object) -> httpx2.Response:
    return httpx2.Response(200, json=document, headers=HEADERS)


def stream(events: list[Event]) -> httpx2.Response:
    lines = [f"event: {name}\n" * bool(name) + f"data: {json.dumps(event)}\n\n" for name, event in
             events]  # fmt: skip
    lines.append("data: [DONE]\n\n" * (events[0][0] == ""))
    headers = {**HEADERS, "content-type": "text/event-stream"}
    return httpx2.Response(200, content="".join(lines).encode(), headers=headers)


@functools.cache
def openai_client(handler: Handler = answer) -> openai.OpenAI:
    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    return openai.OpenAI(api_key="sk-canary-7f3a", max_retries=0, http_client=http)


@functools.cache
def async_openai_client(handler: Handler = answer) -> openai.AsyncOpenAI:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
    return openai.AsyncOpenAI(api_key="sk-canary-7f3a", max_retries=0, http_client=http)


@functools.cache
def anthropic_client(handler: Handler = answer) -> anthropic.Anthropic:
    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    return anthropic.Anthropic(api_key="sk-canary-7f3a", max_retries=0, http_client=http)


@functools.cache
def async_anthropic_client(handler: Handler = answer) -> anthropic.AsyncAnthropic:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
    return anthropic.AsyncAnthropic(api_key="sk-canary-7f3a", max_retries=0, http_client=http)


@contextmanager
def capturing(dsn: str, **options: Any) -> Iterator[None]:
    import pytest  # the client's benchmark runs where other tools are, without it

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVICE_DSN", dsn)
        patch.setattr(capture, "unhooked", set())  # others hook modules without their methods
        tallystick.init(**options)
        try:
            yield
        finally:
            tallystick.close(0.2)


def record_calls(count: int = 1) -> None:
    """Calls that no hook sees, told from one another by their number of prompt tokens."""
    for number in range(count):
        assert tallystick.record(model="gpt-4o", prompt_tokens=number, completion_tokens=1)


def queued() -> list[dict[str, Any]]:
    """The records that wait, taken out of the queue."""
    current = capture.active
    assert current is not None
    queue = current.delivery._queue
    records = []
    with suppress(IndexError):  # the sending thread may take one in between
        while True:
            records.append(json.loads(str(write_record(queue.popleft()))))
    return records


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)
