"""Valkey in a data folder: on a Unix socket, without persistence, because Redis is disposable."""

import os
import signal
from pathlib import Path
from urllib.parse import quote

from redis import Redis, RedisError

from service.operations.local.embedded.ownership import stop_leftovers
from service.operations.local.embedded.placement import Placement, make_private
from service.operations.local.processes.handle import Probe, Program

NAME = "valkey"
SOCKET_NAME = "valkey.sock"

_PROGRAM_NAMES = frozenset({"valkey-server", "redis-server"})


def prepare(placement: Placement) -> None:
    """Create the server's folder, and stop a server that outlived its supervisor."""
    folder = make_private(placement.folder / NAME, placement.user)
    stop_leftovers(_PROGRAM_NAMES, folder, placement.user_id, signal.SIGTERM)


def program(placement: Placement, log_file: Path) -> Program:
    folder = placement.folder / NAME
    options = {
        "port": "0",
        "unixsocket": str(placement.sockets / SOCKET_NAME),
        # The sockets' folder decides who can connect.
        "unixsocketperm": "777",
        "dir": str(folder),
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
        log_file=str(log_file),
        environment={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        user=placement.user,
        probe=Probe(
            socket=str(placement.sockets / SOCKET_NAME),
            question=b"PING\r\nQUIT\r\n",
            not_ready=b"-LOADING",
        ),
        longest_backoff_seconds=1.0,
    )


def redis_url(placement: Placement) -> str:
    return f"unix://{quote(str(placement.sockets / SOCKET_NAME))}?db=0"


def answers(placement: Placement) -> bool:
    """Check whether the server accepts commands."""
    try:
        with Redis.from_url(redis_url(placement), socket_timeout=2, retry=None) as redis:
            return bool(redis.ping())
    except RedisError:
        return False
