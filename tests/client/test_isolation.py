"""Batches travel alone: without other tools' headers and context, and for a bounded time."""

import http.client
import socket
import sys
import threading
import time
import urllib.request
from contextvars import ContextVar
from typing import Any, Final

import pytest

import tallystick
from tallystick.sending import connection
from tests.client.collector import Collector
from tests.client.environments import LOCKS, environment_python, run
from tests.client.offline import capturing, record_calls
from tests.worker.support.promises import STRESS_SECONDS

BATCH_HEADERS: Final = {
    *("host", "authorization", "content-type", "content-encoding", "content-length", "path"),
    *("idempotency-key", "user-agent", "connection", "accept-encoding"),
}
_baggage: ContextVar[str] = ContextVar("baggage", default="")


def test_headers_that_other_tools_add_to_every_request_are_not_sent(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    """Tools patch these methods while the program runs."""
    spied: list[str] = []
    original = http.client.HTTPConnection.putrequest

    def putrequest(self: http.client.HTTPConnection, *args: Any, **options: Any) -> None:
        spied.append("putrequest")
        original(self, *args, **options)
        self.putheader("baggage", "user.id=7")

    monkeypatch.setattr(http.client.HTTPConnection, "putrequest", putrequest)
    monkeypatch.setattr(urllib.request.OpenerDirector, "open", None)
    with capturing(collector.dsn):
        record_calls()
        assert tallystick.flush(5)
    (request,) = collector.requests
    assert "baggage" not in {name.lower() for name in request}
    assert spied == []


LATE_IMPORT = """
import http.client
def putrequest(self, *args, **options):
    original(self, *args, **options)
    self.putheader("traceparent", "00-1-1-01")
original, http.client.HTTPConnection.putrequest = http.client.HTTPConnection.putrequest, putrequest
import tallystick
tallystick.init(exit_timeout=10)
tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
assert tallystick.flush(10)
"""


def test_tools_that_patch_before_the_client_is_imported_see_nothing_either(
    collector: Collector,
) -> None:
    run(sys.executable, "-c", LATE_IMPORT, SERVICE_DSN=collector.dsn)
    (request,) = collector.requests
    assert "traceparent" not in request


REAL_SENTRY = """
import sentry_sdk
sentry_sdk.init("http://key@127.0.0.1:9/1", traces_sample_rate=1.0)
span = sentry_sdk.start_transaction(name="request")
"""
REAL_OPENTELEMETRY = """
from opentelemetry import baggage, context
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.instrumentation.urllib import URLLibInstrumentor
from opentelemetry.instrumentation.urllib3 import URLLib3Instrumentor
from opentelemetry.sdk.trace import TracerProvider
provider = TracerProvider()
for instrumentor in (RequestsInstrumentor(), URLLibInstrumentor(), URLLib3Instrumentor()):
    instrumentor.instrument(tracer_provider=provider)
context.attach(baggage.set_baggage("user.id", "7"))
span = provider.get_tracer("t").start_as_current_span("request")
"""
WITHIN_A_TRACE = """
import os, urllib.error, urllib.request, tallystick
if {is_first}: tallystick.init()
{tool}
if not {is_first}: tallystick.init()
with span:
    try:
        urllib.request.urlopen(os.environ["WITNESS"], timeout=10)
    except urllib.error.HTTPError:
        pass
    tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
    assert tallystick.flush(10)
os._exit(0)
"""
TRACERS = {
    "sentry": (REAL_SENTRY, "instrumentors.lock", {"sentry-trace", "baggage"}),
    "opentelemetry": (REAL_OPENTELEMETRY, "openlit.lock", {"traceparent", "baggage"}),
}


@pytest.mark.stress
@pytest.mark.timeout(STRESS_SECONDS)
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("tracer", TRACERS)
def test_transports_that_real_tools_instrument_add_nothing_to_a_batch(
    tracer: str, is_first: bool, collector: Collector
) -> None:
    """A request of the program's own, by the same library, shows that the tool is active."""
    tool, lock, expected = TRACERS[tracer]
    program = WITHIN_A_TRACE.format(tool=tool, is_first=is_first)
    python = environment_python(LOCKS / "others" / lock)
    with Collector() as witness:
        run(python, "-c", program, SERVICE_DSN=collector.dsn, WITNESS=witness.url)
    (request,) = witness.requests
    assert expected <= {name.lower() for name in request}
    (batch,) = collector.requests
    assert {name.lower() for name in batch} == BATCH_HEADERS


def test_the_sending_thread_does_not_inherit_the_context_of_a_call(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    """Tracing tools wrap `Thread.start` to hand the caller's context to the new thread."""
    found: list[str] = []
    start = threading.Thread.start

    def start_with_context(self: threading.Thread) -> None:
        if self.name == "tallystick":
            found.append(_baggage.get())
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_with_context)
    token = _baggage.set("user.id=7")
    try:
        with capturing(collector.dsn):
            record_calls()
            assert tallystick.flush(5)
    finally:
        _baggage.reset(token)
    assert found == [""]


def test_a_server_that_dribbles_is_left_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives long before the timeout of a read, so only a total limit ends it."""
    monkeypatch.setattr(connection, "TOTAL_SECONDS", 0.5)
    with _Dribbling() as server, capturing(server.dsn):
        record_calls()
        began = time.monotonic()
        tallystick.flush(60)
        assert 0.4 < time.monotonic() - began < 30
        assert tallystick.stats()["dropped"] == 1


def test_a_proxy_gets_the_credentials_of_its_address(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    monkeypatch.setenv("http_proxy", collector.url.replace("http://", "http://me:pa%20ss@"))
    monkeypatch.setenv("no_proxy", "localhost")
    with capturing("http://ik_test@tallystick.invalid", allow_http=True):
        record_calls()
        assert tallystick.flush(5)
    assert collector.requests[0]["Proxy-Authorization"] == "Basic bWU6cGEgc3M="
    assert collector.requests[0]["Host"] == "tallystick.invalid"


def test_https_goes_through_a_tunnel_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "localhost")
        with capturing("https://ik_test@tallystick.invalid"):
            record_calls()
            tallystick.flush(0)
            tunnel, _ = proxy.accept()
            with tunnel:
                asked = tunnel.recv(4_096).decode()
    assert asked.startswith("CONNECT tallystick.invalid:443 HTTP/1.")
    assert "Proxy-Authorization: Basic bWU6c2VjcmV0" in asked
    assert "ik_test" not in asked


class _Dribbling:
    """Sends the first line of a response, and then a byte of a header every 50 milliseconds."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = f"http://ik_test@127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> "_Dribbling":
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        taken, _ = self._listener.accept()
        with taken:
            taken.sendall(b"HTTP/1.1 201 Created\r\nX-Slow: ")
            try:
                while True:
                    time.sleep(0.05)
                    taken.sendall(b"x")
            except OSError:
                return
