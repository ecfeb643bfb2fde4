"""The rounds of the client's benchmark, in a process of their own: `calls`, `start` or `exit`."""

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

CALLS = 1_500
WARM_UP = 50
ROUNDS = 30
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

Call = Callable[[], object]


def _styles(bare: bool) -> dict[str, Call]:
    """Return calls by style; `bare` clients behave as without hooks."""
    from tests.client import offline
    from tests.client.styles import CHAT, CLAUDE, STREAMED

    chat = _client(offline.openai_client(), bare).chat.completions
    messages = _client(offline.anthropic_client(), bare).messages
    asynchronous = _client(offline.async_openai_client(), bare).chat.completions
    loop = asyncio.new_event_loop()

    async def drain() -> None:
        async for _ in await asynchronous.create(**STREAMED):
            pass

    return {
        "openai_call": lambda: chat.create(**CHAT),
        "anthropic_call": lambda: messages.create(**CLAUDE),
        "openai_stream": lambda: list(chat.create(**STREAMED)),
        "anthropic_stream": lambda: list(messages.create(**CLAUDE, stream=True)),
        "async_call": lambda: loop.run_until_complete(asynchronous.create(**CHAT)),
        "async_stream": lambda: loop.run_until_complete(drain()),
    }


def _client(like: Any, bare: bool) -> Any:
    kind = type(like)
    if bare:
        kind = type(kind.__name__, (kind,), {"request": kind.request.__tallystick_original__})
    return kind(api_key="k", max_retries=0, http_client=like._client)


def measure_calls(tool: str) -> dict[str, float]:
    """Alternate calls with and without the tool, if it can be removed from a client."""
    if tool == "tallystick":
        turn_on(tool)
        hooked, bare = _styles(bare=False), _styles(bare=True)
        added = {name: _median_added(hooked[name], bare[name]) for name in hooked}
        return {**added, "hashed_call": _hashed(hooked["openai_call"]), "memory_mb": _memory()}
    styles = _styles(bare=False)
    before = {name: _median_time(call) for name, call in styles.items()}
    turn_on(tool)
    styles = _styles(bare=False)
    return {name: _median_time(call) - before[name] for name, call in styles.items()}


def _median_added(one: Call, other: Call) -> float:
    times: dict[Call, list[float]] = {one: [], other: []}
    for number in range(CALLS + WARM_UP):
        for call in (one, other) if number % 2 else (other, one):
            times[call].append(_time(call))
    return _median(times[one][WARM_UP:]) - _median(times[other][WARM_UP:])


def _median_time(call: Call) -> float:
    return _median([_time(call) for _ in range(CALLS + WARM_UP)][WARM_UP:])


def _time(call: Call) -> float:
    begun = time.thread_time()
    call()
    return time.thread_time() - begun


def _hashed(call: Call) -> float:
    import tallystick

    def turned(is_on: bool) -> list[float]:
        tallystick.close(0)
        if is_on:
            tallystick.init(prefix_hash=True)
        return [_time(call) for _ in range(CALLS_A_ROUND)]

    rounds = [(turned(True), turned(False)) for _ in range(ROUNDS)]
    return _median([time for on, _ in rounds for time in on]) - _median(
        [time for _, off in rounds for time in off]
    )


def _memory() -> float:
    """Measure the memory that 10,000 unsent calls add to a process."""
    import tallystick
    from tests.client import offline
    from tests.client.styles import CHAT

    create = offline.openai_client().chat.completions.create
    tallystick.close(0)
    for _ in range(2_000):
        create(**CHAT)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tallystick.init()
    for _ in range(10_000):
        create(**CHAT)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def _median(values: list[float]) -> float:
    return statistics.median(values) * 1e6


# Start and exit


def measure_start(tool: str) -> dict[str, float]:
    """Turn a tool on, including its imports."""
    begun = time.perf_counter()
    if tool != "tallystick":
        turn_on(tool)
        return {"init_ms": (time.perf_counter() - begun) * 1e3}
    import tallystick  # noqa: F401

    imported = time.perf_counter()
    turn_on(tool)
    ended = time.perf_counter()
    return {"import_ms": (imported - begun) * 1e3, "init_ms": (ended - imported) * 1e3}


def exit_now(tool: str, kind: str) -> None:
    """Make a call, and measure until the last line."""
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
