"""Run real instrumentations against the provider stub, and keep what their exporters send.

`python -m tests.service.otlp.recording` records again; the environments come from the lock files in
requirements/otlp. What is kept names no machine.
"""

import gzip
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple

import requests
import yaml  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.client.environments import LOCKS, ROOT, environment_python
from tests.client.provider_stub import ProviderStub
from tests.service.otlp.requests import PROTOBUF
from tests.worker.support.waiting import wait_until

FOLDER: Final = Path(__file__).parent
PROGRAMS: Final = FOLDER / "programs"
EXPORTS: Final = FOLDER / "exports"
NODE: Final = ROOT / "var" / "otlp" / "node"
# The switches of docs/api/otlp.md.
OFF: Final = {
    "TRACELOOP_TRACE_CONTENT": "false",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "false",
    "OPENINFERENCE_HIDE_INPUTS": "true",
    "OPENINFERENCE_HIDE_OUTPUTS": "true",
    "OPENINFERENCE_HIDE_EMBEDDINGS_TEXT": "true",
    "CONTENT": "off",
}
ON: Final = {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only",
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "CONTENT": "on",
}
MODES: Final = {"off": OFF, "on": ON}
_KEPT: Final = ("service.name", "deployment.environment", "deployment.environment.name")
_STUB_IDS: Final = (b"chatcmpl-1", b"resp_1", b"msg_1")


class Program(NamedTuple):
    """A program in `programs`, and the lock file of its environment."""

    name: str
    lock: str


PYTHON: Final = (
    Program("instrumentation_openai", "traceloop"),
    Program("instrumentation_openai_v2", "openai_v2"),
    Program("instrumentation_anthropic", "traceloop"),
    Program("traceloop_sdk", "traceloop"),
    Program("openinference_openai", "openinference"),
    Program("openinference_anthropic", "openinference"),
    Program("langchain_alone", "openinference"),
    Program("langchain_over_openai", "openinference"),
    Program("pydantic_ai_agent", "pydantic"),
    Program("logfire_sdk", "pydantic"),
    Program("litellm_callback", "litellm"),
    Program("openlit_sdk", "openlit"),
)
VERCEL: Final = Program("vercel_ai", "node")
COLLECTED: Final = ("traceloop_sdk", "openinference_anthropic", "litellm_callback", "vercel_ai")
EVERY: Final = (*PYTHON, VERCEL)


def export_path(program: str, mode: str) -> Path:
    return EXPORTS / f"{program}-{mode}.bin"


def record(program: Program, mode: str, url: str | None = None) -> bytes:
    """Return what a program's exporter sends, or have it sent to the service at `url`."""
    with numbered_stub() as stub, collector() as (own_url, bodies):
        environment = _environment(stub.url, url or own_url) | MODES[mode]
        command = _command(program)
        finished = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    assert finished.returncode == 0, finished.stderr[-3_000:]
    return _anonymous(b"".join(bodies))


def _command(program: Program) -> list[str]:
    if program is VERCEL:
        return ["node", str(node_program())]
    python = environment_python(LOCKS.parent / "otlp" / f"{program.lock}.lock")
    own = PROGRAMS / f"{program.name}.py"
    file = own if own.exists() else PROGRAMS / "instrumented.py"
    return [python, str(file), program.name]


def node_program() -> Path:
    """Install the packages of the lock file once, and return the program beside them."""
    NODE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "vercel_ai.mjs"):
        shutil.copy(PROGRAMS / name, NODE / name)
    if not (NODE / "node_modules").exists():
        install = ("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
        subprocess.run(install, cwd=NODE, check=True, capture_output=True, timeout=600)
    return NODE / "vercel_ai.mjs"


def _environment(stub_url: str, collector_url: str) -> dict[str, str]:
    """Return the settings of an exporter, in the words of every program."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(NODE.parent),
        "STUB_URL": stub_url,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector_url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_SERVICE_NAME": "checkout",
        "OTEL_EXPORTER": "otlp_http",
        "OTEL_ENDPOINT": f"{collector_url}/v1/traces",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


class NumberedStub(ProviderStub):
    """A stub whose responses have IDs of their own, as those of a provider do."""

    def __init__(self) -> None:
        super().__init__()
        handler = self.RequestHandlerClass
        stub = self

        class Handler(handler):  # type: ignore[misc, valid-type]
            def _send(self, data: bytes, *rest: object) -> None:
                super()._send(stub.number(data), *rest)

            def _chunk(self, data: bytes) -> None:
                super()._chunk(stub.number(data))

        self.RequestHandlerClass = Handler

    def number(self, data: bytes) -> bytes:
        for response_id in _STUB_IDS:
            data = data.replace(response_id, b"%s%d" % (response_id[:-1], len(self.seen)))
        return data


@contextmanager
def numbered_stub() -> Iterator[ProviderStub]:
    with NumberedStub() as stub:
        yield stub


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a collector, and the bodies that it has got."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = _read_chunks(self) or self.rfile.read(
                int(self.headers.get("Content-Length") or 0)
            )
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path.endswith("/traces"):
                bodies.append(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/otlp", bodies
        server.shutdown()


def _read_chunks(handler: BaseHTTPRequestHandler) -> bytes:
    body = b""
    if handler.headers.get("Transfer-Encoding") == "chunked":
        while size := int(handler.rfile.readline(), 16):
            body += handler.rfile.read(size)
            handler.rfile.readline()
        handler.rfile.readline()
    return body


def _anonymous(body: bytes) -> bytes:
    """Return the request without the attributes that name a machine."""
    request = ExportTraceServiceRequest.FromString(body)
    for resource_spans in request.resource_spans:
        kept = [each for each in resource_spans.resource.attributes if each.key in _KEPT]
        del resource_spans.resource.attributes[:]
        resource_spans.resource.attributes.extend(kept)
    return bytes(request.SerializeToString())


def record_every(programs: Mapping[str, Program]) -> None:
    for program in programs.values():
        for mode in MODES:
            export_path(program.name, mode).write_bytes(record(program, mode))
            sys.stdout.write(f"{program.name}, text {mode}\n")


def record_collector(command: str) -> None:
    """Keep what a Collector makes of the recorded exports."""
    with collector() as (url, bodies), running_collector(command, url) as receiver:
        for name in COLLECTED:
            body = export_path(name, "off").read_bytes()
            requests.post(receiver, data=body, headers={"Content-Type": PROTOBUF}, timeout=10)
    (EXPORTS / "collector.bin").write_bytes(b"".join(bodies))


@contextmanager
def running_collector(command: str, url: str, key: str = "") -> Iterator[str]:
    """Yield the address that a Collector with the guide's settings receives traces at."""
    settings = collector_settings()
    # Not every distribution has this processor.
    settings["processors"].pop("attributes/no-text")
    settings["service"]["pipelines"]["traces/tallystick"]["processors"] = ["batch"]
    settings["service"]["telemetry"] = {"metrics": {"level": "none"}}
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        settings["receivers"]["otlp"]["protocols"]["http"]["endpoint"] = address
        file = Path(folder, "settings.yaml")
        file.write_text(yaml.safe_dump(settings))
        free.close()
        environment = {"BASE_URL": url.removesuffix("/otlp"), "INGEST_KEY": key}
        with Path(folder, "log").open("wb") as log:
            run = [command, "--config", str(file)]
            process = subprocess.Popen(run, env=environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: b"Everything is ready" in Path(folder, "log").read_bytes(), 20)
            yield f"http://{address}/v1/traces"
        finally:
            process.terminate()  # it sends what it has
            process.wait(30)


def collector_settings() -> Any:
    """Return the settings in the guide."""
    guide = (ROOT / "docs" / "api" / "otlp.md").read_text()
    return yaml.safe_load(guide.partition("```yaml\n")[2].partition("```")[0])


if __name__ == "__main__":
    chosen = sys.argv[1:]
    record_every({each.name: each for each in EVERY if not chosen or each.name in chosen})
