"""The rounds of `client.py`, in a process of their own: `calls`, `start` or `exit` of one tool."""

import asyncio
import json
import os
import resource
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 30
# Setting hooks and taking them off voids what the interpreter has learned of the classes; programs
# that go on calling learn it once.
CALLS_A_ROUND = 40


def turn_on(tool: str, **options: Any) -> None:
    if tool == "tallystick":
        import tallystick

        tallystick.init(**options)
    elif tool == "sentry-sdk":
        import sentry_sdk

        sentry_sdk.init(
            os.environ.get("TOOL_DSN", "http://key@127.0.0.1:9/1"), traces_sample_rate=1.0
        )
    elif tool == "langfuse":
        from langfuse import Langfuse

        host = os.environ.get("TOOL_HOST", "http://127.0.0.1:9")
        Langfuse(public_key="pk", secret_key="sk", host=host, base_url=host)
        import langfuse.openai  # noqa: F401 - importing it is what hooks the library
    elif tool == "openinference":
        _turn_on_openinference()


def _turn_on_openinference() -> None:
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    host = os.environ.get("TOOL_HOST", "http://127.0.0.1:9")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{host}/v1/traces")))
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    try:
        from openinference.instrumentation.anthropic import AnthropicInstrumentor

        AnthropicInstrumentor().instrument(tracer_provider=provider)
    except ImportError:
        pass


# Calls

Round = Callable[[], float]


def _rounds() -> dict[str, Round]:
    from tests.client import offline
    from tests.client.styles import CHAT, CLAUDE, STREAMED

    chat = offline.openai_client().chat.completions
    messages = offline.anthropic_client().messages
    asynchronous = offline.async_openai_client().chat.completions
    loop = asyncio.new_event_loop()

    def timed(count: int, call: Callable[[], Any]) -> Round:
        def round_() -> float:
            begun = time.thread_time()
            for _ in range(count):
                call()
            return (time.thread_time() - begun) / count

        return round_

    async def drain() -> None:
        async for _ in await asynchronous.create(**STREAMED):
            pass

    return {
        "openai_call": timed(CALLS_A_ROUND, lambda: chat.create(**CHAT)),
        "anthropic_call": timed(CALLS_A_ROUND, lambda: messages.create(**CLAUDE)),
        "openai_stream": timed(CALLS_A_ROUND, lambda: list(chat.create(**STREAMED))),
        "anthropic_stream": timed(
            CALLS_A_ROUND, lambda: list(messages.create(**CLAUDE, stream=True))
        ),
        "async_call": timed(
            CALLS_A_ROUND, lambda: loop.run_until_complete(asynchronous.create(**CHAT))
        ),
        "async_stream": timed(CALLS_A_ROUND, lambda: loop.run_until_complete(drain())),
    }


def measure_calls(tool: str) -> dict[str, float]:
    """Where a tool can be taken off again its rounds alternate with rounds without it."""
    from tests.client import offline  # noqa: F401 - the libraries, before anything is measured

    rounds = _rounds()
    for one in rounds.values():
        one()
    if tool != "tallystick":
        before = {name: [one() for _ in range(ROUNDS)] for name, one in rounds.items()}
        turn_on(tool)
        rounds = _rounds()
        after = {name: [one() for _ in range(ROUNDS)] for name, one in rounds.items()}
        added = {name: _median(after[name]) - _median(before[name]) for name in before}
        return {**added, "hashed_call": float("nan"), "memory_mb": float("nan")}
    return _alternate(rounds)


def _alternate(rounds: dict[str, Round]) -> dict[str, float]:
    from openai import _base_client as openai_base
    from openai import _streaming as openai_streaming

    from anthropic import _base_client as anthropic_base  # isort: skip
    from anthropic import _streaming as anthropic_streaming  # isort: skip
    from tests.client.styles import CHAT

    points: list[tuple[Any, str]] = []
    for base, streaming in (
        (openai_base, openai_streaming),
        (anthropic_base, anthropic_streaming),
    ):
        points += [(base.SyncAPIClient, "request"), (base.AsyncAPIClient, "request")]
        points += [(streaming.Stream, "close"), (streaming.AsyncStream, "close")]
    plain = [vars(owner)[name] for owner, name in points]
    turn_on("tallystick")
    hooked = [vars(owner)[name] for owner, name in points]
    added = {}
    for name, one in rounds.items():
        differences = []
        for number in range(ROUNDS):
            pair = [(plain, "off"), (hooked, "on")]
            taken = {}
            for methods, state in pair if number % 2 else pair[::-1]:
                for (owner, method), value in zip(points, methods, strict=True):
                    setattr(owner, method, value)
                taken[state] = one()
            differences.append(taken["on"] - taken["off"])
        added[name] = _median(differences)
    for (owner, method), value in zip(points, hooked, strict=True):
        setattr(owner, method, value)
    return {**added, "hashed_call": _hashed(rounds["openai_call"]), "memory_mb": _memory(CHAT)}


def _hashed(one: Round) -> float:
    import tallystick

    differences = []
    for number in range(ROUNDS):
        taken = {}
        for state in (True, False) if number % 2 else (False, True):
            tallystick.close(0)
            if state:
                tallystick.init(prefix_hash=True)
            taken[state] = one()
        differences.append(taken[True] - taken[False])
    return _median(differences)


def _memory(chat: dict[str, Any]) -> float:
    """What 10,000 calls, of which none can be sent, add to a process that makes them anyway."""
    import tallystick
    from tests.client import offline

    create = offline.openai_client().chat.completions.create
    tallystick.close(0)
    for _ in range(2_000):
        create(**chat)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tallystick.init()
    for _ in range(10_000):
        create(**chat)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def _median(values: list[float]) -> float:
    return statistics.median(values) * 1e6


# Start and exit


def measure_start(tool: str) -> dict[str, float]:
    begun = time.perf_counter()
    if tool == "tallystick":
        import tallystick  # noqa: F401
    imported = time.perf_counter()
    turn_on(tool)
    ended = time.perf_counter()
    return {"import_ms": (imported - begun) * 1e3, "init_ms": (ended - imported) * 1e3}


def exit_now(tool: str, kind: str) -> None:
    """One call, and the time of the last line."""
    listener = socket.create_server(("127.0.0.1", 0))
    host = {"dead": "192.0.2.1:9", "refusing": "127.0.0.1:9"}.get(
        kind, f"127.0.0.1:{listener.getsockname()[1]}"
    )
    os.environ["SERVICE_DSN"] = f"http://ik_x@{host}"
    os.environ["TOOL_DSN"] = f"http://key@{host}/1"
    os.environ["TOOL_HOST"] = f"http://{host}"
    turn_on(tool)
    from tests.client import offline
    from tests.client.styles import CHAT

    offline.openai_client().chat.completions.create(**CHAT)
    sys.stdout.write(repr(time.time()))
    sys.stdout.flush()


def main() -> None:
    what, tool = sys.argv[1:3]
    if what == "exit":
        exit_now(tool, sys.argv[3])
        return
    measured = measure_calls(tool) if what == "calls" else measure_start(tool)
    sys.stdout.write(json.dumps(measured))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
