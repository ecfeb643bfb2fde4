"""What the hooks alone take: around a method that returns a finished answer, with warm caches."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import anthropic._base_client
import openai._base_client

import tallystick
from tallystick.hooks.requests import wrap_request
from tests.client import offline
from tests.client.styles import CHAT, CLAUDE, STREAMED

ROUNDS, CALLS_A_ROUND, WARM_UP = 400, 20, 200
Call = Callable[[], object]


class Asked:
    """What the library gave its `request` for one call, and what came back."""

    def __init__(self, module: Any, ask: Call) -> None:
        kind, taken = module.SyncAPIClient, self
        original = kind.request

        def request(client: Any, *args: Any, **kwargs: Any) -> Any:
            taken.base_url, taken.args, taken.kwargs = client._base_url, args, kwargs
            taken.answer = original(client, *args, **kwargs)
            return taken.answer

        kind.request = request
        try:
            self.items = list(self.answer) if hasattr(ask(), "response") else []
        finally:
            kind.request = original

    base_url: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    answer: Any

    def call(self, library: str, *, is_hooked: bool) -> Call:
        """Return the same call of a client whose `request` does nothing of its own."""
        answers = self._streams if self.items else lambda: self.answer

        def request(client: Any, *args: Any, **kwargs: Any) -> Any:
            return answers()

        wrapped = wrap_request(library, request) if is_hooked else request
        client = type("Client", (), {"request": wrapped, "_base_url": self.base_url})()
        if self.items:
            return lambda: list(client.request(*self.args, **self.kwargs)._iterator)
        return lambda: client.request(*self.args, **self.kwargs)

    def _streams(self) -> Any:
        stream = object.__new__(type(self.answer))
        stream.__dict__.update(response=self.answer.response, _iterator=_each(self.items))
        return stream


def _each(items: list[Any]) -> Iterator[Any]:
    yield from items


def main() -> None:
    chat = offline.openai_client().chat.completions
    messages = offline.anthropic_client().messages
    asked = {
        "openai_call": Asked(openai._base_client, lambda: chat.create(**CHAT)),
        "anthropic_call": Asked(anthropic._base_client, lambda: messages.create(**CLAUDE)),
        "openai_stream": Asked(openai._base_client, lambda: chat.create(**STREAMED)),
        "anthropic_stream": Asked(
            anthropic._base_client, lambda: messages.create(**CLAUDE, stream=True)
        ),
    }
    tallystick.init(allow_http=True)
    found = {f"{name}_alone": _added(each, name.partition("_")[0]) for name, each in asked.items()}
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


def _added(asked: Asked, library: str) -> float:
    """Return the difference of the shortest rounds in µs: other programs only ever add time."""
    calls = {hooked: asked.call(library, is_hooked=hooked) for hooked in (True, False)}
    shortest = dict.fromkeys(calls, float("inf"))
    for hooked, call in calls.items():
        before = tallystick.stats()["captured"]
        for _ in range(WARM_UP):
            call()
        if tallystick.stats()["captured"] - before != WARM_UP * hooked:
            raise SystemExit("not all calls were captured")
    for _ in range(ROUNDS):
        for hooked, call in calls.items():
            shortest[hooked] = min(shortest[hooked], _round(call))
    return (shortest[True] - shortest[False]) / CALLS_A_ROUND / 1e3


def _round(call: Call) -> int:
    begun = time.thread_time_ns()
    for _ in range(CALLS_A_ROUND):
        call()
    return time.thread_time_ns() - begun


if __name__ == "__main__":
    main()
