"""Make the delivery and the sender that a destination and the options of `init()` ask for.

Arguments of `init()` and `record()` are checked here, too. Unusable ones get their default.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Union

from tallystick.sending.delivery import Delivery
from tallystick.sending.dsn import Destination
from tallystick.sending.records import Noted, is_prefix_hash, is_provider

if TYPE_CHECKING:
    from tallystick.sending.files import FileSender
    from tallystick.sending.revising import BeforeSend
    from tallystick.sending.transport import Sender

Folder = Union[str, "os.PathLike[str]"]


class Way(NamedTuple):
    """Where records go, and what happens to them on the way."""

    destination: Destination
    retry: bool = False
    spool: Folder | None = None
    before_send: BeforeSend | None = None


def make_delivery(
    way: Way, load: Callable[[], None], report: Callable[[str], None], **options: Any
) -> Delivery:
    """Return a delivery by way of the spool, or without it if there is none."""
    arguments = (load, lambda: make_sender(way, report))
    if way.spool is None:
        return Delivery(*arguments, report=report, **options)
    try:
        from tallystick.sending.spool import Spool
        from tallystick.sending.spooled import SpooledDelivery

        spool, write = Spool(os.fspath(way.spool)), make_writer(way.before_send, report)
        return SpooledDelivery(spool, write, *arguments, report=report, **options)
    except (ImportError, OSError, TypeError) as error:  # such as a disk without file locks
        number = error.errno if type(error) is OSError else None
        reason = errno.errorcode.get(number or 0, type(error).__name__)
        warn(f"init(spool=…) can't be used ({reason}); calls are captured without a spool")
        delivery = Delivery(*arguments, report=report, **options)
        delivery.spool_error = reason
        return delivery


def make_sender(way: Way, report: Callable[[str], None]) -> Sender | FileSender:
    write = make_writer(way.before_send, report)
    if way.destination.file is not None:
        from tallystick.sending.files import FileSender

        return FileSender(way.destination.file, write)
    from tallystick.sending.transport import Sender

    return Sender(way.destination, write, retry=way.retry)


def make_writer(
    before_send: BeforeSend | None, report: Callable[[str], None]
) -> Callable[[list[Noted]], list[str]]:
    """Return what writes records as lines, by way of the program's callback if it has one."""
    from tallystick.sending.transport import write_lines

    if before_send is None:
        return write_lines
    from tallystick.sending.revising import Revision

    return Revision(before_send, write_lines, report)


def warn(message: str) -> None:
    import logging

    logging.getLogger("tallystick").warning(message)


def checked_hosts(providers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the pairs whose provider the service would accept, and warn of any other."""
    given = dict(providers or {})
    kept = {host: provider for host, provider in given.items() if is_provider(provider)}
    if len(kept) < len(given):
        warn("init(providers=…) expects lowercase names of providers, such as azure")
    return kept


def checked_streams(wanted: bool | Iterable[str]) -> bool | frozenset[str]:
    """Return whether streams are asked for their usage, or the hosts of those that are."""
    if isinstance(wanted, bool):
        return wanted
    try:
        return frozenset(host.lower() for host in ([wanted] if isinstance(wanted, str) else wanted))
    except (AttributeError, TypeError):
        warn("init(include_usage=…) expects True or the names of hosts, such as llm.example.com")
        return False


def hash_key(key: str | bytes | None) -> bytes | None:
    """Return the key as bytes; None for a value that is no key."""
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass") or None
    return key or None if isinstance(key, bytes) else None


def checked_hash(text: str | None) -> str | None:
    return text if is_prefix_hash(text) else None


def seconds(moment: datetime | None) -> float:
    if moment is None:
        return time.time()
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def within(least: float, value: float, most: float, default: float) -> float:
    """Return the value if it is a number in bounds, or else the default."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and least <= value <= most else default
