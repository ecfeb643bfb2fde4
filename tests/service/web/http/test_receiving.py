"""A body of known length goes from the socket into its buffer, up to its end and no further."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http.body import Body, LengthReader
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import SocketUnreader

from service.web.server import receiving
from service.web.server.receiving import receive_into

NEXT = b"GET / HTTP/1.1"


class Request:
    """A body of five bytes, of which some came with the header."""

    def __init__(self, sent: bytes, ahead: int) -> None:
        self.client, self.server = socket.socketpair()
        self.server.settimeout(0.01)
        self.client.sendall(sent[ahead:])
        self.unreader: Any = SocketUnreader(self.server)
        self.unreader.unread(sent[:ahead])
        self.body: Any = Body(LengthReader(self.unreader, 5))

    def receive(self, size: int = 9) -> bytes:
        target = bytearray(size)
        return bytes(target[: receive_into(self.body, memoryview(target))])


@pytest.fixture
def request_of(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: list[Request] = []

    def make(sent: bytes, ahead: int) -> Request:
        made.append(Request(sent, ahead))
        return made[-1]

    yield make
    for one in made:
        one.client.close()
        one.server.close()


@pytest.mark.parametrize("ahead", [0, 2, 5, 7, 5 + len(NEXT)])
@pytest.mark.parametrize("size", [2, 5, 9])
def test_what_follows_the_body_stays(request_of: Any, ahead: int, size: int) -> None:
    one = request_of(b"abcde" + NEXT, ahead)
    assert b"".join(iter(lambda: one.receive(size), b"")) == b"abcde"
    assert one.unreader.read(len(NEXT)) == NEXT
    assert not one.body.failed


def test_a_body_that_is_broken_off_is_shorter(request_of: Any) -> None:
    one = request_of(b"abc", 1)
    one.client.close()
    assert (one.receive(), one.receive()) == (b"abc", b"")


def test_a_silent_client_ends_its_connection(request_of: Any) -> None:
    one = request_of(b"abc", 1)
    with pytest.raises(TimeoutError):
        one.receive()
    assert one.body.failed


def test_a_line_that_was_read_before_is_not_lost(request_of: Any) -> None:
    one = request_of(b"a\ncde" + NEXT, 0)
    assert one.body.readline() == b"a\n"
    assert one.receive() + one.receive() == b"cde"


def test_gunicorn_keeps_what_the_receiver_expects() -> None:
    """If this fails after an upgrade, read gunicorn's readers again: `receiving` copies them."""
    client, server = socket.socketpair()
    with client, server:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde")
        body = next(RequestParser(Config(), server, None)).body
        reader = body.reader
        state = [set(vars(each)) for each in (body, reader, reader.unreader)]
        assert state == [
            {"reader", "buf", "failed"},
            {"unreader", "length"},
            {"buf", "sock", "mxchunk"},
        ]
        assert receiving._is_plain(body)
        # Another reader may do more than these, so it reads for itself.
        body.reader = type("Limited", (LengthReader,), {})(reader.unreader, reader.length)
        assert not receiving._is_plain(body)
