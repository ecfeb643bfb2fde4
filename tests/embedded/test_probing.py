"""Decide when a program that doesn't answer its probe is given up."""

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.operations.local.handle import Probe
from service.operations.local.supervisor import STARTING_SECONDS, Prober

READY, STARTING = b"ready", b"starting"


class Listener:
    """A program's socket, on which a test answers."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "socket")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen()
        self.answer: bytes | None = READY

    def answer_one(self) -> None:
        self._socket.settimeout(0)
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return
        with connection:
            assert connection.recv(100) == b"question"
            if self.answer is not None:
                connection.sendall(self.answer)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own path may be too long for a socket
        listener = Listener(Path(folder))
        yield listener
        listener.close()


def follow(prober: Prober, listener: Listener, since: int, until: int) -> list[tuple[int, str]]:
    """Let seconds pass, and return when the prober complained."""
    complaints = []
    for second in range(since, until):
        complaint = prober.find_complaint(float(second))
        if complaint:
            complaints.append((second, complaint))
        listener.answer_one()
    return complaints


@pytest.fixture
def prober(listener: Listener) -> Iterator[Prober]:
    prober = Prober(Probe(listener.path, b"question", STARTING))
    yield prober
    prober.begin(0.0)  # closes its connection


def test_a_program_that_answers_is_left_alone(prober: Prober, listener: Listener) -> None:
    assert follow(prober, listener, 0, 1_000) == []


def test_a_silent_program_is_given_up_each_time_after_twice_as_long(
    prober: Prober, listener: Listener
) -> None:
    """A program that is started again and again would never finish its start."""
    listener.answer = None
    complaints = follow(prober, listener, 0, 80)
    assert [second for second, _ in complaints] == [11, 32, 73]
    assert complaints[0][1] == "hasn't answered for 11 s"


def test_a_program_that_nobody_can_reach_is_given_up(prober: Prober, listener: Listener) -> None:
    listener.close()
    Path(listener.path).unlink()
    assert [prober.find_complaint(float(second)) is None for second in range(12)][-1] is False


def test_a_program_that_is_starting_gets_more_time(prober: Prober, listener: Listener) -> None:
    listener.answer = STARTING
    last = int(STARTING_SECONDS) + 1
    complaint = (last, f"hasn't been ready for {last} s")
    assert follow(prober, listener, 0, last + 9) == [complaint]
    listener.answer = READY
    assert follow(prober, listener, last + 9, 400) == []
    listener.answer = None  # it was ready, so its next silence is the first again
    assert follow(prober, listener, 400, 415)


def test_a_program_that_hangs_while_it_starts_is_given_up_as_soon_as_any_other(
    prober: Prober, listener: Listener
) -> None:
    listener.answer = STARTING
    assert follow(prober, listener, 0, 60) == []
    listener.answer = None
    [(second, complaint)] = follow(prober, listener, 60, 75)
    assert complaint == "hasn't answered for 11 s", second


def test_time_in_which_the_supervisor_did_not_run_does_not_count(
    prober: Prober, listener: Listener
) -> None:
    assert follow(prober, listener, 0, 5) == []
    assert prober.find_complaint(10_000.0) is None
    assert follow(prober, listener, 10_001, 10_100) == []
