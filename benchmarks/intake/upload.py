"""The upload benchmark: 200 MB, accepted or rejected at the last line, through gunicorn.

    python -m benchmarks.intake.upload [--runs N]

The service runs on this machine as `tallystick up` runs it, with its workers stopped. The client
uses the same processors. Time is from the first byte sent to the last byte of the response; the
best of several runs counts. By then an accepted upload is re-encoded on disk and its row is
committed. Memory is the peak of either web process. The phases are those of one accepted file, in
this process. The limit per minute is raised, because the benchmark would exceed it.

An accepted file may take twice as long as the least that must be done with its bytes: hash and copy
them to disk, and read them with DuckDB, which is done just before, in this process.
"""

import argparse
import gzip
import hashlib
import http.client
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import psutil
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from benchmarks.intake.ingest import stop_workers
from benchmarks.pages import cookie_of, new_session
from benchmarks.running import print_machine, running_service
from detectors.formats import encode_chunk, read_chunks
from service.cli.account import create_account
from service.core.blobs import BlobStore
from service.models import Credit
from service.models.identity.accounts import find_account
from service.operations.local.stack import Stack
from service.web.auth.browsers import SESSION_COOKIE
from service.web.intake.receiving import FileSink, copy_file
from service.web.intake.storing import CHUNK_BYTES

PERSON: Final = "benchmark@example.com"
SETTINGS: Final = {
    "UPLOAD_LIMIT_PER_MINUTE": "1000000",
}
BYTES_PER_MB: Final = 1_000_000
FILE_BYTES: Final = 200 * BYTES_PER_MB
LINE_BYTES: Final = 215
MODELS: Final = (b"gpt-5.4-mini", b"gpt-5.4", b"gpt-5-nano", b"gpt-4o-mini")
START: Final = 1_790_000_000
TOO_MANY_BYTES: Final = 201 << 20
BOUNDARY: Final = "tallystick-benchmark"
HEAD: Final = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="usage.log"\r\n\r\n'
).encode()
TAIL: Final = f"\r\n--{BOUNDARY}--\r\n".encode()
BLOCK_BYTES: Final = 256 * 1024
MAX_RATIO, MAX_MB = 2.0, 150.0
READ_JSON: Final = (
    "SELECT count(*), max(id), max(model), max(tag), sum(usage.prompt_tokens) FROM read_json('{}')"
)
READ_CSV: Final = (
    "SELECT count(*), max(ts)::text, max(model), max(tag), sum(prompt_tokens) FROM read_csv('{}')"
)
CREDITS: Final = 100


@dataclass(frozen=True)
class Case:
    """A file to send, the expected status, and how DuckDB reads it if its time is limited."""

    what: str
    file: bytes
    status: int
    name: str = ""
    query: str = READ_JSON

    @property
    def max_seconds(self) -> float | None:
        return MAX_RATIO * least_seconds(self) if self.name else None


@dataclass(frozen=True)
class Measured:
    what: str
    value: str
    bar: str = ""
    is_met: bool | None = None


class Clock:
    """Adds the time since the last call to a phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def stop(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


def usage_log(size: int) -> bytes:
    """Return OpenAI-style JSON Lines of about 215 bytes, all with different IDs."""
    randomness, log = random.Random(size), bytearray()
    for row in range(size // LINE_BYTES):
        prompt = randomness.randrange(200, 9_000)
        log += (
            b'{"id":"chatcmpl-%08d","created":%d,"model":"%s","usage":{"prompt_tokens":%d,'
            b'"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}},'
            b'"tag":"route-%02d","declared_max_tokens":%d}\n'
        ) % (
            row,
            START + row,
            MODELS[row % len(MODELS)],
            prompt,
            prompt % 900,
            prompt // 2,
            prompt % 40,
            256 << prompt % 5,
        )
    return bytes(log)


def csv_log(size: int) -> bytes:
    """Return CSV with the required columns and a tag: three times as many rows."""
    header = b"ts,provider,model,prompt_tokens,completion_tokens,tag\n"
    rows = b"".join(
        b"2026-10-%02dT09:%02d:%02dZ,openai,gpt-5-mini,%d,%d,route-%02d\n"
        % (1 + row % 28, row // 60 % 60, row % 60, 400 + row % 9_000, 20 + row % 900, row % 40)
        for row in range(10_000)
    )
    return header + rows * ((size - len(header)) // len(rows))


def json_array(log: bytes) -> bytes:
    """Return the objects of JSON Lines as one array."""
    return b"[" + log.rstrip(b"\n").replace(b"\n", b",") + b"]"


class Client:
    """A signed-in browser with credits."""

    def __init__(self, stack: Stack) -> None:
        self._port = stack.port
        self._headers = {
            "Cookie": sign_in(stack),
            "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        }

    def upload(self, file: bytes) -> tuple[int, float]:
        """Return the status of the response, and the seconds until it arrived."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        length = {"Content-Length": str(len(HEAD) + len(file) + len(TAIL))}
        began = time.perf_counter()
        connection.request("POST", "/api/v1/audits", body_of(file), {**self._headers, **length})
        response = connection.getresponse()
        response.read()
        seconds = time.perf_counter() - began
        connection.close()
        return response.status, seconds


def body_of(file: bytes) -> Iterator[bytes]:
    yield HEAD
    view = memoryview(file)
    for start in range(0, len(file), BLOCK_BYTES):
        yield bytes(view[start : start + BLOCK_BYTES])
    yield TAIL


def sign_in(stack: Stack) -> str:
    """Create an account; return the cookie of a browser that is signed in to it."""
    engine = create_engine(stack.config.migration_database_url)
    with Session(engine) as session:
        account = create_account(session, PERSON, "team")
        session.flush()
        secret = new_session(session, account.id)
    engine.dispose()
    return f"{SESSION_COOKIE}={cookie_of(stack, secret)}"


def give_credits(stack: Stack) -> None:
    engine = create_engine(stack.config.database_url)
    with Session(engine) as session:
        account = find_account(session, PERSON)
        if account is None:
            raise SystemExit("signing in made no account")
        session.add_all(Credit(account_id=account.id) for _ in range(CREDITS))
        session.commit()
    engine.dispose()


def measure(stack: Stack, runs: int) -> list[Measured]:
    stop_workers(stack)
    client, log = Client(stack), usage_log(FILE_BYTES)
    results = [timed(client, Case("no credit, answered unread", log, 402), runs)]
    give_credits(stack)
    spoiled = log + b'{"model":"gpt-5","usage":{},"content":"never kept"}\n'
    cases = [
        Case("JSON Lines, accepted", log, 201, "log.jsonl"),
        Case("JSON Lines, rejected at the last line", spoiled, 422),
        Case("a JSON array, accepted", json_array(log), 201, "log.json"),
        Case("JSON Lines in gzip, accepted", gzip.compress(log, 6), 201, "log.jsonl.gz"),
        Case("CSV, accepted", csv_log(FILE_BYTES), 201, "log.csv", READ_CSV),
        Case("too large, refused by its length", bytes(TOO_MANY_BYTES), 413),
    ]
    results += [timed(client, case, runs) for case in cases]
    return [*results, memory(stack), *phases(log)]


def timed(client: Client, case: Case, runs: int) -> Measured:
    results = [client.upload(case.file) for _ in range(runs)]
    for status, _ in results:
        if status != case.status:
            raise SystemExit(f"{case.what}: answered with {status}, not {case.status}")
    seconds = min(seconds for _, seconds in results)
    what = f"{len(case.file) / BYTES_PER_MB:.0f} MB of {case.what}"
    most = case.max_seconds
    if most is None:
        return Measured(what, f"{seconds:.2f} s")
    bar = f"<= {most:.2f} s, {MAX_RATIO:g} x the least"
    return Measured(what, f"{seconds:.2f} s", bar, seconds <= most)


def least_seconds(case: Case) -> float:
    """Hash a file's bytes, copy them to disk, and read them with DuckDB."""
    connection = duckdb.connect()
    with tempfile.TemporaryDirectory(prefix="tallystick-least-") as folder:
        path, digest, view = Path(folder, case.name), hashlib.sha256(), memoryview(case.file)
        began = time.perf_counter()
        with path.open("wb") as file:
            for start in range(0, len(view), BLOCK_BYTES):
                digest.update(view[start : start + BLOCK_BYTES])
                file.write(view[start : start + BLOCK_BYTES])
            file.flush()
            os.fsync(file.fileno())
        connection.execute(case.query.format(path)).fetchall()
        return time.perf_counter() - began


def memory(stack: Stack) -> Measured:
    web = psutil.Process(stack.supervisor.programs()["web"].pid)
    peak = max(peak_mb(process.pid) for process in web.children())
    return Measured(
        "web process, peak RSS", f"{peak:.0f} MB", f"<= {MAX_MB:.0f} MB", peak <= MAX_MB
    )


def peak_mb(pid: int) -> float:
    """Return the kernel's peak memory of a process, in kibibytes."""
    peak = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
    if peak is None:
        raise SystemExit("this system does not tell how much memory a process has held")
    return int(peak[1]) * 1_024 / BYTES_PER_MB


def phases(log: bytes) -> list[Measured]:
    """Run the steps of the web process one after the other."""
    folder = Path(tempfile.mkdtemp(prefix="tallystick-phases-"))
    blobs, clock = BlobStore.from_url(folder.as_uri()), Clock()
    with tempfile.TemporaryFile() as spool:
        copy_file(body_of(log), BOUNDARY.encode(), FileSink(spool, len(log)))
        clock.stop("receive, count, hash, spool")
        spool.seek(0)
        with blobs.writer("raw/benchmark.jsonl") as blob:
            for chunk in read_chunks(spool, chunk_bytes=CHUNK_BYTES):
                clock.stop("check the contract")
                text = encode_chunk(chunk)
                clock.stop("re-encode")
                blob.write(text)
                clock.stop("store, fsync")
        clock.stop("store, fsync")
    shutil.rmtree(folder)
    return [Measured(f"phase: {what}", f"{spent:.2f} s") for what, spent in clock.seconds.items()]


def print_table(results: list[Measured]) -> None:
    print_machine()
    table = Table(title="Upload, durable before the 201")
    for heading in ("what", "measured", "bar", "met"):
        table.add_column(heading)
    for one in results:
        met = "" if one.is_met is None else "yes" if one.is_met else "no"
        table.add_row(one.what, one.value, one.bar, met)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3, help="times that each file is sent")
    arguments = parser.parse_args()
    with running_service("upload", SETTINGS) as stack:
        print_table(measure(stack, arguments.runs))


if __name__ == "__main__":
    main()
