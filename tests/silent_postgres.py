"""A PostgreSQL that accepts connections and, on demand, no longer answers."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import make_url

_SOCKET = ".s.PGSQL.5432"


class SilentPostgres:
    """Passes on what clients and the server send, unless it `is_silent`."""

    def __init__(self, folder: str, real: str) -> None:
        self.is_silent = False
        self._real = real
        self._listener = socket.socket(socket.AF_UNIX)
        path = Path(folder, _SOCKET)
        self._listener.bind(str(path))
        path.chmod(0o777)
        self._listener.listen(200)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self._real)
            answers = threading.Thread(target=self._pass_on, args=[server, client], daemon=True)
            answers.start()
            self._pass_on(client, server)
            answers.join()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                while self.is_silent:
                    time.sleep(0.05)
                target.sendall(content)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def running_silent_postgres(database_url: str) -> Iterator[tuple[SilentPostgres, str]]:
    """Yield one in front of the server at this address, and its own address."""
    url = make_url(database_url)
    with TemporaryDirectory(prefix="tallystick-silent-") as folder:
        Path(folder).chmod(0o711)
        between = SilentPostgres(folder, str(Path(str(url.query["host"]), _SOCKET)))
        try:
            own = url.update_query_dict({"host": folder})
            yield between, own.render_as_string(hide_password=False)
        finally:
            between.is_silent = False
            between.close()
