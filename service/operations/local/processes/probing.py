"""Find out whether a program still answers, without ever waiting for it."""

import socket

from service.operations.local.processes.handle import Probe

# An answer costs PostgreSQL a new session, about four milliseconds.
PAUSE_SECONDS = 2.0
# Time in which this process did not run either says nothing about the program.
_LONGEST_STEP_SECONDS = 1.0
_ANSWER_BYTES = 4096
_MOST_PATIENCE = 64


class Prober:
    """Ask one program again and again, and count for how long it has not been ready.

    Each time a program was killed without having been ready since, it gets twice the time: a slow
    machine must not keep a server from ever finishing its recovery.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._connection: socket.socket | None = None
        self._answer = b""
        self._patience = 1
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Start to count for a new process."""
        self._hang_up()
        self._looked_at = self._ask_at = now
        self._silent_seconds = self._not_ready_seconds = 0.0

    def find_complaint(self, now: float) -> str | None:
        """Ask or listen; return what is wrong once it has lasted for too long."""
        step = min(now - self._looked_at, _LONGEST_STEP_SECONDS)
        self._looked_at = now
        self._silent_seconds += step
        self._not_ready_seconds += step
        if self._connection is not None:
            self._listen(self._connection)
        elif now >= self._ask_at:
            self._ask_at = now + PAUSE_SECONDS
            self._connection = socket.socket(socket.AF_UNIX)
            self._connection.setblocking(False)
            try:
                self._connection.connect(self._probe.socket)
                self._connection.sendall(self._probe.question)
            except OSError:  # Nobody listens, or the queue of connections is full.
                self._hang_up()
        for missed, seconds, most in (
            ("answered", self._silent_seconds, self._probe.silent_seconds),
            ("been ready", self._not_ready_seconds, self._probe.not_ready_seconds),
        ):
            if seconds > most * self._patience:
                self._patience = min(2 * self._patience, _MOST_PATIENCE)
                self.begin(now)
                return f"hasn't {missed} for {seconds:.0f} s"
        return None

    def _listen(self, connection: socket.socket) -> None:
        """Read what has arrived; the answer is complete once the program has hung up."""
        try:
            received = connection.recv(_ANSWER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        self._answer = (self._answer + received)[:_ANSWER_BYTES]
        if received:
            return
        if self._answer:
            self._silent_seconds = 0.0
            if self._probe.not_ready not in self._answer:
                self._not_ready_seconds, self._patience = 0.0, 1
        self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._answer = None, b""
