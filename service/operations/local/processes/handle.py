"""The owner's side of the supervising process."""

import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from service.operations.local.processes.program import (
    Answer,
    Ask,
    Order,
    Program,
    Start,
    Status,
    Stop,
)

_MODULE = "service.operations.local.processes.supervisor"

_decode_answer = msgspec.json.Decoder(Answer).decode
_encode_order = msgspec.json.Encoder().encode


class SupervisorError(Exception):
    """The supervisor process exited, or could not carry out an order."""


class Supervisor:
    """Start and stop programs through a separate process that ends with this process.

    The supervisor process holds the file descriptors `kept_open` until it has stopped every
    program, for example the lock of the data folder. The methods are thread-safe.
    """

    def __init__(self, log_file: Path, kept_open: tuple[int, ...] = ()) -> None:
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                # -P: never import a folder named `service` in the current directory.
                [sys.executable, "-P", "-m", _MODULE, str(log_file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=kept_open,
                start_new_session=True,
            )
        self._turn = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def start(self, program: Program) -> None:
        self._order(Start(program))

    def stop(self, name: str, signal: int | None = None) -> None:
        """Stop one program; `signal` overrides its stop signal."""
        self._order(Stop(name, signal))

    def programs(self) -> dict[str, Status]:
        return self._order(Ask())

    def close(self) -> None:
        """Stop every program in order and wait until all have exited."""
        with self._turn:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process.wait()

    def _order(self, order: Order) -> dict[str, Status]:
        with self._turn:
            answer = self._exchange(_encode_order(order) + b"\n")
        if answer.error is not None:
            raise SupervisorError(answer.error)
        return answer.programs

    def _exchange(self, line: bytes) -> Answer:
        orders, answers = self._process.stdin, self._process.stdout
        if orders is None or answers is None:
            raise SupervisorError("the supervisor process has no pipes")
        try:
            orders.write(line)
            orders.flush()
            reply = answers.readline()
        except (OSError, ValueError) as error:
            raise SupervisorError("the supervisor process has exited") from error
        if not reply:
            raise SupervisorError("the supervisor process has exited")
        return _decode_answer(reply)
