"""One part of the client's benchmark, in a process of its own."""

import asyncio
import importlib
import json
import os
import resource
import socket
import statistics
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

CALLS, CALLS_OF_OTHERS = 220, 80
WARM_UP = 20
CALLS_A_ROUND = 10
MEMORY_CALLS = 10_000
HASHED_PAIRS = 20
FULL_BACKLOG = 4


def turn_on(tool: str, **options: Any) -> None:
    if tool == "tallystick":
        import tallystick

        tallystick.init(allow_http=True, **options)
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
        _instrument("openinference.instrumentation")
    elif tool == "traceloop":
        _instrument("opentelemetry.instrumentation")


def _instrument(package: str) -> None:
    """Turn on the instrumentors of a package, which send spans to a collector in batches."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    host = os.environ.get("TOOL_HOST", "http://127.0.0.1:9")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{host}/v1/traces")))
    for library, kind in (("openai", "OpenAIInstrumentor"), ("anthropic", "AnthropicInstrumentor")):
        instrumentor = getattr(importlib.import_module(f"{package}.{library}"), kind)
        instrumentor().instrument(tracer_provider=provider)


# Calls

Call = Callable[[], object]


def _styles() -> dict[str, Call]:
    """Return calls by style."""
    from tests.client import offline
    from tests.client.styles import CHAT, CLAUDE, STREAMED

    chat = _client(offline.openai_client()).chat.completions
    messages = _client(offline.anthropic_client()).messages
    asynchronous = _client(offline.async_openai_client()).chat.completions
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


def _client(like: Any) -> Any:
    """Return a new client, because some tools hook their methods when a client is made."""
    return type(like)(api_key="k", max_retries=0, http_client=like._client)


def measure_calls(tool: str) -> dict[str, float]:
    """Measure calls with and without the tool: alternating, if both can be had in one process."""
    styles = _styles()
    if tool == "tallystick":
        _warm_up(styles)
        bare = _take_libraries()
        turn_on(tool)
        hooked = _styles()
        _warm_up(hooked)
        both = {False: bare, True: _libraries()}
        added = {name: _added(both, hooked[name], styles[name]) for name in styles}
        return {**added, "hashed_call": _hashed(hooked["openai_call"])}
    before = {name: _usual_time(call) for name, call in styles.items()}
    turn_on(tool)
    return {name: _usual_time(call) - before[name] for name, call in _styles().items()}


def _warm_up(styles: dict[str, Call]) -> None:
    """Make calls of each style, so that every module that they need is imported."""
    for call in styles.values():
        for _ in range(WARM_UP):
            call()


def _libraries() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in ("openai", "anthropic")]
    return {name: sys.modules[name] for name in names}


def _take_libraries() -> dict[str, ModuleType]:
    """Take the libraries out: the next import makes a copy of them, and clients keep the first."""
    from tests.client import offline

    found = _libraries()
    for name in found:
        del sys.modules[name]
    for make in (offline.openai_client, offline.async_openai_client, offline.anthropic_client):
        make.cache_clear()
    return found


def _added(copies: dict[bool, dict[str, ModuleType]], hooked: Call, bare: Call) -> float:
    """Return what the hooks add to a call; `copies` are the libraries without and with them."""
    import tallystick

    times: dict[bool, list[float]] = {True: [], False: []}
    before = tallystick.stats()["captured"]
    for number in range(2 * CALLS):
        is_hooked = number % 4 in (0, 3)  # neither kind is always the first of a pair
        sys.modules.update(copies[is_hooked])  # their functions import when they are called
        times[is_hooked].append(_time(hooked if is_hooked else bare))
    sys.modules.update(copies[True])
    captured = tallystick.stats()["captured"] - before
    if captured != CALLS:
        raise SystemExit(f"{captured} of {CALLS} calls were captured")
    return _usual(times[True]) - _usual(times[False])


def _usual_time(call: Call) -> float:
    return _usual([_time(call) for _ in range(CALLS_OF_OTHERS + WARM_UP)][WARM_UP:])


def _time(call: Call) -> float:
    begun = time.thread_time()
    call()
    return time.thread_time() - begun


def _hashed(call: Call) -> float:
    import tallystick

    def turned(is_on: bool) -> float:
        tallystick.close(0)
        if is_on:
            turn_on("tallystick", prefix_hash=True)
        return _usual([_time(call) for _ in range(2 * CALLS_A_ROUND)][CALLS_A_ROUND:])

    pairs = [(turned(True), turned(False)) for _ in range(HASHED_PAIRS)]
    return statistics.median(on - off for on, off in pairs)


def measure_memory() -> dict[str, float]:
    """Measure what calls add to the memory of a process while none of them is sent."""
    import tallystick
    from tests.client import offline
    from tests.client.styles import CHAT

    create = offline.openai_client().chat.completions.create
    tallystick.close(0)
    for _ in range(MEMORY_CALLS // 10):
        create(**CHAT)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    turn_on("tallystick")
    for _ in range(MEMORY_CALLS):
        create(**CHAT)
    return {"memory_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def _usual(values: list[float]) -> float:
    """Return the first quartile in µs, because other programs only ever add time."""
    return statistics.quantiles(values, n=4)[0] * 1e6


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


_sockets: list[socket.socket] = []  # open until the process ends


def exit_now(tool: str, kind: str) -> None:
    """Make a call, and measure until the last line."""
    host = _server(kind)
    os.environ["SERVICE_DSN"] = f"http://ik_x@{host}"
    os.environ["TOOL_DSN"] = f"http://key@{host}/1"
    os.environ["TOOL_HOST"] = f"http://{host}"
    turn_on(tool)
    from tests.client import offline
    from tests.client.styles import CHAT

    offline.openai_client().chat.completions.create(**CHAT)
    sys.stdout.write(repr(time.time()))
    sys.stdout.flush()


def _server(kind: str) -> str:
    """Return the address of a server that is not reached, refuses or never answers."""
    if kind == "refusing":
        return "127.0.0.1:9"
    listener = socket.create_server(("127.0.0.1", 0), backlog=0 if kind == "dead" else 128)
    _sockets.append(listener)
    for _ in range(FULL_BACKLOG if kind == "dead" else 0):  # later connections are not answered
        waiting = socket.socket()
        waiting.setblocking(False)
        waiting.connect_ex(listener.getsockname())
        _sockets.append(waiting)
    return f"127.0.0.1:{listener.getsockname()[1]}"


def main() -> None:
    what, tool = sys.argv[1:3]
    if what == "exit":
        exit_now(tool, sys.argv[3])
        return
    if what == "calls":
        measured = measure_calls(tool)
    else:
        measured = measure_memory() if what == "memory" else measure_start(tool)
    sys.stdout.write(json.dumps(measured))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
