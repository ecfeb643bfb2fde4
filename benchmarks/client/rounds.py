"""One part of the client's benchmark, in a process of its own."""

import asyncio
import gc
import importlib
import json
import os
import resource
import socket
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

OURS, NOISE = "tallystick", "noise"
CLIENT = str(Path(__file__).parents[2] / "client")
CALLS, CALLS_OF_OTHERS = 240, 80
WARM_UP = 20
CALLS_A_ROUND, UNTIMED = 10, 3
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
_OWN = ("openai", "anthropic", "tallystick", "tests")


def _styles() -> dict[str, Call]:
    """Return calls by style."""
    from tests.client import offline
    from tests.client.styles import CHAT, CLAUDE, STREAMED

    answer = _remembered(offline.answer)
    chat = _client(offline.openai_client(answer)).chat.completions
    messages = _client(offline.anthropic_client(answer)).messages
    asynchronous = _client(offline.async_openai_client(answer)).chat.completions
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


def _remembered(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a provider that writes each answer once: its own work would only add noise."""
    written: dict[tuple[str, bool], Any] = {}

    def say(request: Any) -> Any:
        key = request.url.path, b'"stream":true' in request.content
        if key not in written:
            written[key] = answer(request)
        first = written[key]
        return type(first)(200, content=first.content, headers=first.headers)

    return say


def _client(like: Any) -> Any:
    """Return a new client, because some tools hook their methods when a client is made."""
    return type(like)(api_key="k", max_retries=0, http_client=like._client)


@dataclass
class Program:
    """A copy of the libraries, and perhaps a client of ours that has hooked this copy."""

    styles: dict[str, Call]
    modules: dict[str, ModuleType]

    def enter(self) -> None:
        """Let functions of this copy import its own modules when they are called."""
        sys.modules.update(self.modules)


def _program(client: str | None) -> Program:
    """Return a program of its own that has made some calls; `client` is the folder of ours."""
    for name in _own_modules():
        del sys.modules[name]
    finders = list(sys.meta_path)
    sys.path.insert(0, client or CLIENT)
    if client is not None:
        turn_on(OURS)
    program = Program(_styles(), {})
    for call in program.styles.values():
        for _ in range(WARM_UP):
            call()
    sys.path.pop(0)
    sys.meta_path[:] = finders  # the hook of imports, which must not see those of the next copy
    program.modules = _own_modules()
    return program


def _own_modules() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in _OWN]
    return {name: sys.modules[name] for name in names}


def measure_calls(tool: str, turn: int, reference: str | None) -> dict[str, dict[str, float]]:
    """Return what a tool adds to calls, by tool.

    Other tools, which cannot be turned off again, are measured before and after.
    """
    if tool != OURS:
        before = {name: _usual_time(call) for name, call in _styles().items()}
        turn_on(tool)
        return {tool: {name: _usual_time(call) - before[name] for name, call in _styles().items()}}
    kinds = {"bare": None, NOISE: None, OURS: CLIENT, "reference": reference}
    if reference is None:
        del kinds["reference"]
    # Which copy lies where in memory changes its speed, so that each process makes another first.
    names = [*kinds]
    order = names[turn % len(names) :] + names[: turn % len(names)]
    programs = {name: _program(kinds[name]) for name in order}
    gc.collect()
    gc.freeze()
    times = {style: _times(programs, style) for style in programs["bare"].styles}
    added = {
        name: {style: each[name] - each["bare"] for style, each in times.items()}
        for name in names[1:]
    }
    programs[OURS].enter()
    added[OURS]["hashed_call"] = _hashed(programs[OURS].styles["openai_call"])
    return added


def _times(programs: dict[str, Program], style: str) -> dict[str, float]:
    """Return the usual time of a call in each program.

    They alternate in rounds of several calls, because a copy of the libraries empties the caches of
    the others, and a program has only one.
    """
    found: dict[str, list[float]] = {name: [] for name in programs}
    before = _captured(programs)
    for number in range(CALLS // CALLS_A_ROUND):
        order = [*found]
        order = order[number % len(order) :] + order[: number % len(order)]
        for name in order if number % 2 else reversed(order):
            programs[name].enter()
            call = programs[name].styles[style]
            found[name] += [_time(call) for _ in range(UNTIMED + CALLS_A_ROUND)][UNTIMED:]
    expected = CALLS // CALLS_A_ROUND * (UNTIMED + CALLS_A_ROUND)
    if any(count - before[name] != expected for name, count in _captured(programs).items()):
        raise SystemExit(f"not all of {expected} calls were captured")
    return {name: _usual(times) for name, times in found.items()}


def _captured(programs: dict[str, Program]) -> dict[str, int]:
    stats = {name: each.modules[OURS].stats() for name, each in programs.items()}
    return {name: each["captured"] for name, each in stats.items() if each}


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
            turn_on(OURS, prefix_hash=True)
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
    measured: dict[str, Any]
    if what == "calls":
        turn, *reference = sys.argv[3:]
        measured = measure_calls(tool, int(turn), reference[0] if reference else None)
    else:
        measured = measure_memory() if what == "memory" else measure_start(tool)
    sys.stdout.write(json.dumps(measured))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
