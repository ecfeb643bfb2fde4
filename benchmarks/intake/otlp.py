"""The OpenTelemetry benchmark, on the whole service as `tallystick up` runs it.

    python -m benchmarks.intake.otlp [--requests N]

Everything runs on this machine, as in the ingest benchmark. A request is what an exporter sends by
default: 512 spans, each a call with 14 attributes. It counts when its 200 arrives, so it is in
PostgreSQL's log on disk. All spans differ, so the sweeper cuts imports from them and the workers
audit these while more spans come.
"""

import argparse
import gzip
import http.client
import json
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import create_engine

from benchmarks.intake.ingest import CLIENTS, new_key, stop_workers
from benchmarks.running import Measured, print_table, running_service
from service.operations.local.stack import Stack

SETTINGS: Final = {"INGEST_KEY_LIMIT_PER_MINUTE": "1000000"}
SPANS: Final = 512
BODIES: Final = 8
BAR: Final = 20_000
WARM_UP: Final = 20
# In every trace ID; each request replaces it, so that its spans are new.
MARK: Final = bytes.fromhex("5ca1ab1e0ddba11c")
PROTOBUF, JSON = "application/x-protobuf", "application/json"


def make_request(seed: int) -> ExportTraceServiceRequest:
    """Return a request as OpenLLMetry's instrumentation of openai fills it."""
    randomness, request = random.Random(seed), ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource = {"service.name": "checkout", "deployment.environment.name": "live"}
    resource |= {f"host.label.{number}": "value" for number in range(4)}
    _add(resource_spans.resource.attributes, resource)
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "opentelemetry.instrumentation.openai.v1"
    scope_spans.scope.version = "0.62.4"
    for _ in range(SPANS):
        span = scope_spans.spans.add()
        span.name, span.kind = "openai.chat", 3
        span.trace_id = MARK + randomness.randbytes(8)
        span.span_id = randomness.randbytes(8)
        begins = time.time_ns() - randomness.randrange(10**13)
        span.start_time_unix_nano = begins
        span.end_time_unix_nano = begins + randomness.randrange(10**9, 10**10)
        _add(span.attributes, _attributes(randomness))
    return request


def _attributes(randomness: random.Random) -> dict[str, Any]:
    prompt, output = randomness.randint(200, 9_000), randomness.randint(5, 900)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.max_tokens": 1_024,
        "gen_ai.is_streaming": "false",
        "gen_ai.openai.api_base": "https://api.openai.com/v1/",
        "gen_ai.response.model": randomness.choice(("gpt-4o-2024-08-06", "gpt-4.1-mini")),
        "gen_ai.response.id": f"chatcmpl-{randomness.randbytes(14).hex()}",
        "gen_ai.response.finish_reason": "stop",
        "gen_ai.usage.total_tokens": prompt + output,
        "gen_ai.usage.output_tokens": output,
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.cache_read.input_tokens": randomness.choice((0, prompt // 2)),
        "gen_ai.usage.reasoning_tokens": 3,
    }


def _add(attributes: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        attribute = attributes.add()
        attribute.key = name
        if isinstance(value, int):
            attribute.value.int_value = value
        else:
            attribute.value.string_value = value


def as_json(request: ExportTraceServiceRequest) -> bytes:
    """Return the request in OTLP's JSON, whose IDs are hexadecimal."""
    (resource_spans,) = request.resource_spans
    (scope_spans,) = resource_spans.scope_spans
    spans = [
        {
            "traceId": span.trace_id.hex(),
            "spanId": span.span_id.hex(),
            "startTimeUnixNano": str(span.start_time_unix_nano),
            "endTimeUnixNano": str(span.end_time_unix_nano),
            "attributes": [_as_json(each) for each in span.attributes],
        }
        for span in scope_spans.spans
    ]
    scope = {"name": scope_spans.scope.name, "version": scope_spans.scope.version}
    return json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"scope": scope, "spans": spans}]}]}
    ).encode()


def _as_json(attribute: Any) -> dict[str, Any]:
    number = attribute.value.int_value
    value = {"intValue": str(number)} if number else {"stringValue": attribute.value.string_value}
    return {"key": attribute.key, "value": value}


class Exporter:
    """A connection that stays open, and sends spans that nobody has sent before."""

    def __init__(self, port: int, key: str, kind: str, *, packed: bool = False) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": kind}
        self._mark = MARK if kind == PROTOBUF else MARK.hex().encode()
        self._packed = packed
        if packed:
            self._headers["Content-Encoding"] = "gzip"

    def post(self, body: bytes) -> None:
        own = os.urandom(len(MARK))
        body = body.replace(self._mark, own if self._mark is MARK else own.hex().encode())
        body = gzip.compress(body, 1) if self._packed else body
        self._connection.request("POST", "/otlp/v1/traces", body, self._headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != http.client.OK:
            raise SystemExit(f"a request was answered with {response.status}: {answer!r}")


def measure_rate(exporters: Sequence[Exporter], bodies: Sequence[bytes], requests: int) -> float:
    """Return the spans per second that are acknowledged to several exporters."""
    numbers = iter(range(requests))

    def send_some(exporter: Exporter) -> None:
        for number in numbers:  # the exporters share them
            exporter.post(bodies[number % len(bodies)])

    for exporter in exporters:
        exporter.post(bodies[0])
    began = time.perf_counter()
    with ThreadPoolExecutor(len(exporters)) as pool:
        list(pool.map(send_some, exporters))
    return requests * SPANS / (time.perf_counter() - began)


def measure_latency(exporter: Exporter, bodies: Sequence[bytes], requests: int) -> float:
    """Return the median milliseconds until a request is acknowledged to a single exporter."""
    durations = []
    for number in range(requests + WARM_UP):
        began = time.perf_counter()
        exporter.post(bodies[number % len(bodies)])
        durations.append((time.perf_counter() - began) * 1_000)
    return statistics.median(durations[WARM_UP:])


def measure(stack: Stack, requests: int) -> Iterator[Measured]:
    engine = create_engine(stack.config.database_url)
    key, port = new_key(engine), stack.port
    engine.dispose()
    made = [make_request(seed) for seed in range(BODIES)]
    protobuf = [bytes(each.SerializeToString()) for each in made]
    what = f"{SPANS} spans, {CLIENTS} exporters"
    for beside in ("workers auditing", "workers stopped"):
        if beside == "workers stopped":
            stop_workers(stack)
        milliseconds = measure_latency(Exporter(port, key, PROTOBUF), protobuf, requests // 4)
        yield Measured(
            f"{SPANS} spans, 1 exporter: p50", beside, f"{milliseconds:.0f} ms", "", True
        )
        exporters = [Exporter(port, key, PROTOBUF) for _ in range(CLIENTS)]
        rate = measure_rate(exporters, protobuf, requests)
        bar = f">= {BAR:,} spans/s"
        yield Measured(f"{what}: protobuf", beside, f"{rate:,.0f} spans/s", bar, rate >= BAR)
    packed = [Exporter(port, key, PROTOBUF, packed=True) for _ in range(CLIENTS)]
    rate = measure_rate(packed, protobuf, requests // 2)
    yield Measured(
        f"{what}: protobuf, gzip", "workers stopped", f"{rate:,.0f} spans/s", "", is_met=True
    )
    exporters = [Exporter(port, key, JSON) for _ in range(CLIENTS)]
    rate = measure_rate(exporters, list(map(as_json, made)), requests // 2)
    yield Measured(f"{what}: JSON", "workers stopped", f"{rate:,.0f} spans/s", "", is_met=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=600, help="requests to send each time")
    arguments = parser.parse_args()
    with running_service("otlp", SETTINGS) as stack:
        print_table(
            "OpenTelemetry, durable before the 200", list(measure(stack, arguments.requests))
        )


if __name__ == "__main__":
    main()
