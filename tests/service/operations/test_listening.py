"""The sockets of `tallystick up`: bound immediately, by one program only."""

import socket

import pytest

from service.operations.local.listening import LoopbackSockets, PortTakenError


def test_a_port_is_taken_from_the_moment_it_is_chosen() -> None:
    first = LoopbackSockets.open(None, 0)
    with pytest.raises(PortTakenError, match="choose another with --port"):
        LoopbackSockets.open(first.port, 0)
    other = LoopbackSockets.open(None, first.port)
    assert other.port != first.port
    for sockets in (first, other):
        sockets.close()


def test_a_port_taken_on_one_address_is_not_used() -> None:
    with socket.socket(socket.AF_INET) as other_program:
        other_program.bind(("127.0.0.1", 0))
        other_program.listen()
        with pytest.raises(PortTakenError):
            LoopbackSockets.open(other_program.getsockname()[1], 0)


def test_a_closed_port_can_be_taken_again() -> None:
    first = LoopbackSockets.open(None, 0)
    first.close()
    again = LoopbackSockets.open(first.port, 0)
    assert again.port == first.port
    again.close()
