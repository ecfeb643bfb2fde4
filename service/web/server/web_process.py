"""gunicorn's worker and logger, changed to never repeat a malformed request.

By default, gunicorn quotes the malformed line or chunk in its response and log, and that may be a
report link or part of a record. It also waits forever for a silent sender, and closes the
connection of a client that is still sending, so that an early response is lost.
"""

import gc
import json
import selectors
import socket
import struct
import time
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

from gunicorn.config import Config as GunicornConfig
from gunicorn.glogging import Logger
from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.errors import (
    ExpectationFailed,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.util import write_nonblock
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, ThreadWorker
from sqlalchemy.exc import SQLAlchemyError

from service.core.logs import configure_logging, get_logger
from service.core.telemetry.counters import CUT_CONNECTIONS
from service.errors import envelope, message_for
from service.web.auth.credential_usage import write_remaining_usage
from service.web.http.headers import SECURITY_HEADERS
from service.web.server.slots import HEADER_SECONDS, Deadlines, SlottedApplication

_STATUS: Final[tuple[tuple[type[Exception], HTTPStatus], ...]] = (
    (LimitRequestLine, HTTPStatus.REQUEST_URI_TOO_LONG),
    (LimitRequestHeaders, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    (ExpectationFailed, HTTPStatus.EXPECTATION_FAILED),
    (UnsupportedTransferCoding, HTTPStatus.NOT_IMPLEMENTED),
    (ParseException, HTTPStatus.BAD_REQUEST),
    (Exception, HTTPStatus.INTERNAL_SERVER_ERROR),
)

SLOTS: Final = 12  # for a pool of 10 connections, plus two for health checks and 503 responses
# What a process waits for each of its connections before it accepts another, and at most.
_STEP_SECONDS, _MOST_STEPS = 0.0001, 10
# How long a sender may pause in the middle of a request.
_SILENCE_SECONDS: Final = 8
_SILENCE: Final = struct.pack("@ll", _SILENCE_SECONDS, 0)  # a `struct timeval`
# After an early response, we discard what the client still sends, up to a whole upload and within
# this time: closing a connection with unread bytes resets it, and the response would be lost.
_LINGER_SECONDS: Final = 15.0
_LINGER_SILENCE_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 256 * 1024 * 1024
_LINGER_BLOCK_BYTES: Final = 256 * 1024
_READ_UP_BYTES: Final = 64 * 1024

_log = get_logger(__name__)


class WebWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """The threaded worker, with deadlines and error responses that don't quote the request."""

    owns_sockets = True  # so that nobody goes on listening on them

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadlines = Deadlines()

    def load_wsgi(self) -> None:
        # Freeze the loaded objects, so that garbage collection skips them.
        gc.disable()
        super().load_wsgi()
        slotted = SlottedApplication(self.wsgi, SLOTS, self._deadlines)

        # After a response to a partly read body, the rest of the body is discarded, so no further
        # request may follow on the connection.
        def answer(environ: dict[str, Any], start_response: Any) -> Any:
            def start(*arguments: Any) -> Any:
                if _is_mostly_unread(environ["wsgi.input"].reader):
                    start_response.__self__.force_close()
                return start_response(*arguments)

            return slotted(environ, start)

        self.wsgi: Any = answer
        gc.collect()
        gc.freeze()
        gc.enable()

    def run(self) -> None:
        try:
            super().run()
        finally:
            with suppress(SQLAlchemyError):
                write_remaining_usage(self.app.wsgi())

    def set_accept_enabled(self, enabled: bool) -> None:
        """When the process stops, take the connections that are made, and refuse new ones.

        gunicorn leaves the socket open until the last request is finished: the kernel would accept
        connections that nobody answers, which a proxy can't send to another instance. On a socket
        that another program holds, they wait for the next process instead.
        """
        super().set_accept_enabled(enabled)
        if enabled or self.alive or not self.owns_sockets:
            return
        for listener in self.sockets:
            before = -1
            while before != self.nr_conns:
                before = self.nr_conns
                super().accept(listener)
            listener.close()

    def accept(self, listener: Any) -> None:
        """Let a process with fewer connections go first: each new one wakes all processes.

        Otherwise the one that the kernel wakes first gets all of them, and its threads share one
        processor while the other process is idle.
        """
        time.sleep(min(self.nr_conns, _MOST_STEPS) * _STEP_SECONDS)
        super().accept(listener)

    def enqueue_req(self, conn: Any) -> None:
        """Give the connection a thread, but a new one only when its client has sent something."""
        if conn.initialized or conn.data_ready:
            super().enqueue_req(conn)
        else:
            conn.sock.setblocking(False)
            conn.set_timeout()
            self.pending_conns.append(conn)
            wake = partial(self.on_pending_socket_readable, conn)
            self.poller.register(conn.sock, selectors.EVENT_READ, wake)

    def murder_pending(self) -> None:
        """Cut off slow clients too, in each turn of the main loop."""
        if not self.alive:
            ends_at = time.monotonic() + STOP_KEEPALIVE_LINGER
            for conn in self.pending_conns:
                conn.timeout = min(conn.timeout, ends_at)
        super().murder_pending()
        cut = self._deadlines.cut_overdue()
        if cut:
            CUT_CONNECTIONS.labels("slow").inc(cut)
            _log.info("slow_clients_cut_off", count=cut)

    def handle(self, conn: Any) -> Any:
        self._deadlines.set(conn.sock, HEADER_SECONDS)
        # Use the kernel's timeout, because gunicorn resets the socket to blocking.
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SILENCE)
        stays_open = super().handle(conn)
        self._deadlines.clear(conn.sock)
        if stays_open is False:
            _linger(conn.sock)
        return stays_open

    def handle_error(self, _request: Any, client: Any, _address: Any, error: Exception) -> None:
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        request_id = uuid4().hex
        log = _log.bind(request_id=request_id, status=status.value)
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("request_failed", exc_info=error)
        else:
            log.info("request_unreadable", error_type=type(error).__name__)
        try:
            # The error envelope, because the path of an unreadable request is unknown.
            body = json.dumps(envelope(status, message_for(status), request_id)).encode()
            headers = {
                "Connection": "close",
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                "Cache-Control": "no-store",
                "X-Request-Id": request_id,
                **SECURITY_HEADERS,
            }
            lines = [f"HTTP/1.1 {status.value} {status.phrase}", *map(": ".join, headers.items())]
            answer = "\r\n".join([*lines, "", ""]).encode("ascii") + body
            write_nonblock(client, answer)
        except OSError:
            log.debug("client_gone")


def _is_mostly_unread(body: Any) -> bool:
    """Check whether more of the body remains than gunicorn reads automatically."""
    if isinstance(body, LengthReader):
        return bool(body.length >= _READ_UP_BYTES)
    return isinstance(body, ChunkedReader) and body.parser is not None


def _linger(connection: socket.socket) -> None:
    """Close our side of the connection, then discard input until the client closes its side."""
    ends_at, discarded = time.monotonic() + _LINGER_SECONDS, 0
    block = bytearray(_LINGER_BLOCK_BYTES)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(_LINGER_SILENCE_SECONDS)
        while discarded < _LINGER_BYTES and time.monotonic() < ends_at:
            received = connection.recv_into(block)
            if not received:
                return
            discarded += received


class WebLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """Write gunicorn's messages as JSON lines, like the service's own."""

    def setup(self, cfg: GunicornConfig) -> None:
        super().setup(cfg)
        configure_logging(cfg.loglevel.upper())
        for handler in list(self.error_log.handlers):
            self.error_log.removeHandler(handler)
        self.error_log.propagate = True
