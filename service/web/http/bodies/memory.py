"""Bound the memory that large bodies take in a web process while they are checked.

A large body is received into a file. Only a request that has all of its body takes memory for it,
so slow senders hold none; then it waits for its share of a budget. A batch of usual size is
received into memory, which takes a fifth less processor time, while another small budget for that
has room: slow senders that hold it only make others use files.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, cast

from flask import Flask, current_app, g

from service.core.telemetry.counters import REFUSED_BODIES
from service.errors import UnavailableError
from service.web.http.bodies.shares import Shares
from service.web.http.current import without_slot

# With the wait for a slot, less than the ten seconds in which every request is answered.
WAIT_SECONDS: Final = 4.0
_EXTENSION: Final = "body_memory"
_RECEIVING: Final = "receiving_memory"
# How large the other budget is, as a part of this one, and the largest body that may use it.
_RECEIVING_PART: Final = 8
_RECEIVED_BYTES: Final = 4 * 1024 * 1024


def init_body_memory(app: Flask, max_bytes: int) -> None:
    app.extensions[_EXTENSION] = Shares(max_bytes)
    app.extensions[_RECEIVING] = Shares(max_bytes // _RECEIVING_PART)
    app.teardown_appcontext(_give_back)


@contextmanager
def received_in_memory(size: int | None) -> Iterator[bool]:
    """Yield whether a body of this announced size may be received into memory."""
    shares = cast(Shares, current_app.extensions[_RECEIVING])
    has_memory = size is not None and size <= _RECEIVED_BYTES and shares.take(size)
    try:
        yield has_memory
    finally:
        if size is not None and has_memory:
            shares.give_back(size)


def take_memory(size: int) -> None:
    """Take memory until the end of the request; raise `UnavailableError` if none gets free."""
    if not _current_memory().take(size):
        _wait_for_memory(size)
    else:
        _count(size)


def _wait_for_memory(size: int) -> None:
    with without_slot():
        if not _current_memory().take(size, WAIT_SECONDS):
            REFUSED_BODIES.labels("memory").inc()
            raise UnavailableError
        _count(size)  # before the wait for a slot, which can fail


def _count(size: int) -> None:
    g.body_bytes = g.get("body_bytes", 0) + size


def _give_back(_error: BaseException | None) -> None:
    if taken := g.pop("body_bytes", 0):
        _current_memory().give_back(taken)


def _current_memory() -> Shares:
    return cast(Shares, current_app.extensions[_EXTENSION])
