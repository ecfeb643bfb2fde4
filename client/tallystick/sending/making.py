"""Make the delivery and the sender that a destination and the options of `init()` ask for."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Union

from tallystick.sending.delivery import Delivery
from tallystick.sending.dsn import Destination
from tallystick.sending.records import Noted

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
        reason = _reason_of(error)
        warn(f"init(spool=…) can't be used ({reason}); calls are captured without a spool")
        delivery = Delivery(*arguments, report=report, **options)
        delivery.spool_error = reason
        return delivery


def _reason_of(error: Exception) -> str:
    """Return the name of an error, or of its number if it has no name of its own."""
    number = error.errno if type(error) is OSError else None
    return errno.errorcode.get(number or 0, type(error).__name__)


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
