"""A bucket in memory that breaks on demand, as an S3 endpoint does.

It understands what the service sends: objects and their parts, ranges, lists and bulk deletes.
"""

import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape

WORKS, SILENT, SLOW, RESETS, BUSY = "works", "silent", "slow", "resets", "responds 503"
GONE: Final = "is deleted"
FAULTS: Final = (SILENT, SLOW, RESETS, BUSY)
SLOW_SECONDS: Final = 1.5
_BUCKET: Final = "bucket"


class FaultyS3(ThreadingHTTPServer):
    """The bucket `s3://bucket`; `state` says how it behaves."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = WORKS
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.requests = 0

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing when a client gives up."""


@contextmanager
def running_s3() -> Iterator[FaultyS3]:
    with FaultyS3() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.state = WORKS
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: FaultyS3
    protocol_version = "HTTP/1.1"
    # A response in two writes would wait for the client's acknowledgment of the first.
    wbufsize = -1

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):
            super().handle_one_request()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        self.server.requests += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        state = self.server.state
        while self.server.state == SILENT:
            time.sleep(0.05)
        if state == SILENT:  # who asked has long given up
            self.close_connection = True
            return
        if state == SLOW:
            time.sleep(SLOW_SECONDS)
        if state == RESETS:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if state == BUSY:
            self._answer(503, b"<Error><Code>SlowDown</Code></Error>")
            return
        if state == GONE:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            return
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        key = unquote(parts.path).removeprefix(f"/{_BUCKET}").lstrip("/")
        getattr(self, f"_on_{self.command.lower()}")(key, query, body)
        self.wfile.flush()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def _on_put(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploadId" in query:
            self.server.parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
        else:
            self.server.objects[key] = (body, datetime.now(UTC))
        self._answer(200, ETag='"x"')

    def _on_head(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        self._on_get(key, query, body)

    def _on_get(self, key: str, query: dict[str, list[str]], _body: bytes) -> None:
        if "list-type" in query:
            self._answer(200, self._list(query["prefix"][0]).encode())
            return
        if key not in self.server.objects:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        content, stored_at = self.server.objects[key]
        headers = {"ETag": '"x"', "Last_Modified": f"{stored_at:%a, %d %b %Y %H:%M:%S GMT}"}
        status, size = 200, len(content)
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start = int(found[1])
            end = min(int(found[2] or size - 1), size - 1)
            status, content = 206, content[start : end + 1]
            headers["Content_Range"] = f"bytes {start}-{end}/{size}"
        self._answer(status, content, **headers)

    def _on_post(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "delete" in query:
            keys = re.findall(r"<Key>([^<]*)</Key>", body.decode())
            for each in keys:
                self.server.objects.pop(each, None)
            deleted = "".join(f"<Deleted><Key>{escape(each)}</Key></Deleted>" for each in keys)
            self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
        elif "uploads" in query:
            upload = uuid4().hex
            self.server.parts[upload] = {}
            name = f"<UploadId>{upload}</UploadId>"
            result = f"<InitiateMultipartUploadResult>{name}</InitiateMultipartUploadResult>"
            self._answer(200, result.encode())
        else:
            parts = self.server.parts.pop(query["uploadId"][0])
            content = b"".join(parts[number] for number in sorted(parts))
            self.server.objects[key] = (content, datetime.now(UTC))
            result = "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
            self._answer(200, result.encode())

    def _on_delete(self, key: str, query: dict[str, list[str]], _body: bytes) -> None:
        self.server.parts.pop(query.get("uploadId", [""])[0], None)
        self.server.objects.pop(key, None)
        self._answer(204)

    def _list(self, prefix: str) -> str:
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{at:%Y-%m-%dT%H:%M:%S}.000Z"
            f"</LastModified><Size>{len(content)}</Size><ETag>x</ETag></Contents>"
            for key, (content, at) in sorted(self.server.objects.items())
            if key.startswith(prefix)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"

    def _answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
