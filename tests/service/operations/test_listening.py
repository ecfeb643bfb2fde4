"""The sockets of `tallystick up`: bound immediately, by one program only."""

import errno
import os
import socket

import pytest

from service.operations.local.handle import ServersError
from service.operations.local.stack import close, listen


def test_a_port_is_taken_from_the_moment_it_is_chosen() -> None:
    port, sockets = listen(None, 0)
    with pytest.raises(ServersError, match="choose another with --port"):
        listen(port, 0)
    other, more = listen(None, port)
    assert other != port
    close((*sockets, *more))
    again, sockets = listen(port, 0)
    assert again == port
    close(sockets)


def test_a_port_taken_on_one_address_is_not_used() -> None:
    with socket.socket(socket.AF_INET) as other_program:
        other_program.bind(("127.0.0.1", 0))
        other_program.listen()
        with pytest.raises(ServersError):
            listen(other_program.getsockname()[1], 0)


def test_a_port_that_this_user_may_not_use_is_not_said_to_be_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_address: object, **_options: object) -> socket.socket:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(ServersError, match="port 80 isn't allowed for this user; choose another"):
        listen(80, 0)
