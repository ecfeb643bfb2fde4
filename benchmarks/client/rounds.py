"""One part of the client's benchmark, in a process of its own."""

import asyncio
import importlib
import itertools
import json
import os
import resource
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

# Two requests, two closes of streams, and the parsing of responses, of two libraries.
LEAST_HOOKS = 11
CALLS = 300
WARM_UP = 30
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
    """Measure calls with and without the tool: alternating, if it can be removed again."""
    styles = _styles()
    if tool == "tallystick":
        turn_on(tool)
        added = {name: _added(call) for name, call in styles.items()}
        return {**added, "hashed_call": _hashed(styles["openai_call"])}
    before = {name: _usual_time(call) for name, call in styles.items()}
    turn_on(tool)
    return {name: _usual_time(call) - before[name] for name, call in _styles().items()}


def _added(call: Call) -> float:
    """Return what the hooks add to a call: calls with and without them alternate."""
    hooks = _hooks()
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * (CALLS + WARM_UP)):
        is_hooked = number % 4 in (0, 3)  # neither kind is always the first of a pair
        for owner, method, wrapper, original in hooks:
            setattr(owner, method, wrapper if is_hooked else original)
        times[is_hooked].append(_time(call))
    for owner, method, wrapper, _ in hooks:
        setattr(owner, method, wrapper)
    return _usual(times[True][WARM_UP:]) - _usual(times[False][WARM_UP:])


def _hooks() -> list[tuple[type, str, Any, Any]]:
    """Return every method that the client has wrapped, with its wrapper and the original."""
    from tallystick import hooks

    found = []
    for library, name in itertools.product(("openai", "anthropic"), hooks._POINTS):
        module = sys.modules.get(f"{library}.{name}")
        for kind, method, _ in hooks._POINTS[name]:
            owner = getattr(module, kind, None)
            if owner is not None:
                wrapper = vars(owner)[method]
                found.append((owner, method, wrapper, getattr(wrapper, hooks._MARK)))
    if len(found) < LEAST_HOOKS:
        raise SystemExit(f"only {len(found)} methods are hooked")
    return found


def _usual_time(call: Call) -> float:
    return _usual([_time(call) for _ in range(CALLS + WARM_UP)][WARM_UP:])


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
    for _ in range(MEMORY_CALLS // 5):
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
