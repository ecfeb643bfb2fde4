"""A server on this machine that keeps what is sent to it, as Sentry or an OTLP receiver would."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

import brotli
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_UNPACK: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    "gzip": gzip.decompress,
    "br": brotli.decompress,
}


@dataclass
class Received:
    """What was sent: each body unpacked, with its path and its headers."""

    port: int
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def running_receiver() -> Iterator[Received]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            unpack = _UNPACK[self.headers.get("Content-Encoding", "")]
            received.headers.append(dict(self.headers))
            received.paths.append(self.path)
            received.bodies.append(unpack(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received = Received(server.server_address[1])
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield received
        server.shutdown()
        thread.join()


def spans_of(received: Received) -> list[Any]:
    """Return all spans that were sent to it over OTLP."""
    requests = [ExportTraceServiceRequest.FromString(body) for body in received.bodies]
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes_of(span: Any) -> dict[str, Any]:
    found = {each.key: each.value for each in span.attributes}
    return {key: value.string_value or value.int_value for key, value in found.items()}
