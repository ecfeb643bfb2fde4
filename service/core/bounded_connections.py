"""Connections to PostgreSQL that end if the server stays silent.

It ends slow statements itself (`statement_timeout`). But one that stands still, or that the network
no longer reaches, does not, and the driver would wait for as long.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from psycopg2 import OperationalError
from psycopg2.extensions import connection, cursor

_LOOK_SECONDS: Final = 0.25
# How long nobody connects after that: a request that has waited once doesn't wait again, to see
# what became of its statement.
_REFUSED_SECONDS: Final = 1.0
# What the driver may take to send a statement for each of many rows, without us between them.
_ROWS_SECONDS: Final = 60.0


class _Watch:
    """Shut down the connections that wait too long; a thread looks at those of this process."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # The lock keeps a number from being closed, and given to another file, as it is shut down.
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[float, BoundedConnection]] = {}
        self._is_running = False

    def wait(
        self, waiting: "BoundedConnection", seconds: float, ask: Callable[..., Any], *sent: Any
    ) -> Any:
        """Return what the driver returns; let it fail if there is no answer in time."""
        if waiting.closed:
            return ask(*sent)
        number = waiting.fileno()
        with self._lock:
            self._waiting[number] = (time.monotonic() + seconds, waiting)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="database", daemon=True).start()
        try:
            return ask(*sent)
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                now = time.monotonic()
                for number in [each for each, (at, _) in self._waiting.items() if at < now]:
                    _at, late = self._waiting.pop(number)
                    late.server.refused_until = now + _REFUSED_SECONDS
                    with suppress(OSError), socket.socket(fileno=os.dup(number)) as end:
                        end.shutdown(socket.SHUT_RDWR)


_watch: Final = _Watch()


class _Server:
    """What all connections of an engine know of their server."""

    refused_until = 0.0


class BoundedConnection(connection):
    """A connection that is lost if the server takes longer than `seconds` for an answer."""

    seconds: float
    server: _Server

    @classmethod
    def within(cls, seconds: float) -> "Callable[..., BoundedConnection]":
        """Return a factory for the driver."""

        server = _Server()

        def connect(*address: Any, **options: Any) -> BoundedConnection:
            if time.monotonic() < server.refused_until:
                raise OperationalError("the database stays silent")
            made = cls(*address, **options)
            made.seconds, made.server = seconds, server
            return made

        return connect

    def commit(self) -> None:
        _watch.wait(self, self.seconds, super().commit)

    def rollback(self) -> None:
        _watch.wait(self, self.seconds, super().rollback)

    def cursor(self, *name: Any, **options: Any) -> Any:
        kind = _NamedCursor if name or options.get("name") else _Cursor
        return super().cursor(*name, **{"cursor_factory": kind, **options})


class _Cursor(cursor):
    connection: BoundedConnection

    def wait(self, ask: Callable[..., Any], *sent: Any) -> Any:
        return _watch.wait(self.connection, self.connection.seconds, ask, *sent)

    def execute(self, *sent: Any) -> None:
        self.wait(super().execute, *sent)

    def executemany(self, *sent: Any) -> None:
        seconds = max(self.connection.seconds, _ROWS_SECONDS)
        _watch.wait(self.connection, seconds, super().executemany, *sent)


class _NamedCursor(_Cursor):
    """A cursor of the server's, which is asked for each of its parts."""

    def fetchone(self) -> Any:
        return self.wait(super().fetchone)

    def fetchmany(self, *size: Any) -> Any:
        return self.wait(super().fetchmany, *size)

    def fetchall(self) -> Any:
        return self.wait(super().fetchall)
