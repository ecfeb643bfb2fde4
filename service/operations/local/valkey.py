"""Valkey in a data folder: on a Unix socket, without persistence, because Redis is disposable."""

from contextlib import suppress
from urllib.parse import quote

from redis import Redis, RedisError

from service.operations.local.handle import Probe, Program
from service.operations.local.placement import ENVIRONMENT, Placement, make_private

NAME = "valkey"
SOCKET_NAME = "valkey.sock"


def program(placement: Placement) -> Program:
    socket = str(placement.sockets / SOCKET_NAME)
    options = {
        "port": "0",
        "unixsocket": socket,
        # The sockets' folder decides who can connect.
        "unixsocketperm": "777",
        "dir": str(make_private(placement.folder / NAME, placement.user)),
        "save": "",
        "appendonly": "no",
        "loglevel": "warning",
        # The arguments must stay visible, because a later start finds leftovers by them.
        "set-proc-title": "no",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return Program(
        name=NAME,
        command=(str(placement.binaries.valkey), *words),
        folder=str(placement.folder),
        environment=ENVIRONMENT,
        user=placement.user,
        probe=Probe(socket, b"PING\r\nQUIT\r\n", not_ready=b"-LOADING"),
        longest_backoff_seconds=1.0,
        is_server=True,
    )


def redis_url(placement: Placement) -> str:
    return f"unix://{quote(str(placement.sockets / SOCKET_NAME))}?db=0"


def answers(url: str) -> bool:
    """Check whether the server accepts commands."""
    with suppress(RedisError), Redis.from_url(url, socket_timeout=2, retry=None) as redis:
        return bool(redis.ping())
    return False
