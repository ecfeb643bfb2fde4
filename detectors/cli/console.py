"""Shared by all commands: one-line errors, progress, standard output, garbage collection."""

import atexit
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EBADF, EPIPE
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from detectors.wording.labels import inert

LONG_FILE_BYTES: Final = 8 * 1024 * 1024
# An audit of few calls leaves some 90,000 objects, most of them of modules.
_OBJECTS_BETWEEN_COLLECTIONS: Final = 200_000
_done: Final = threading.Event()
_Command = TypeVar("_Command", bound=Callable[..., Any])


class BadInputError(click.ClickException):
    """One line on stderr and exit status 2."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(inert(" ".join(message.split())))


@contextmanager
def standard_output(*, may_close: bool = False) -> Iterator[None]:
    """Turn errors of writing standard output, such as a full disk, into a one-line error.

    With `may_close`, a reader that closes the pipe ends the output and not the command.
    """
    if sys.stdout is None:  # as after `>&-`
        raise BadInputError(f"cannot write standard output: {os.strerror(EBADF)}")
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        is_closed = error.errno == EPIPE
        if is_closed and not may_close:  # click exits quietly
            raise
        # Discard what is buffered, or the interpreter tries to write it again at exit.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        if is_closed:
            return
        raise BadInputError(f"cannot write standard output: {error.strerror}") from error


@contextmanager
def long_progress(what: str, size: int) -> Iterator[Callable[[int, int], None] | None]:
    if size < LONG_FILE_BYTES or not sys.stderr.isatty():
        yield None
        return
    # Most audits show none, and loading it takes a while.
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(what, total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        yield show


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for garbage less often in a command, and not in what it leaves when its process exits.

    Looking takes a quarter of an audit of few calls, and the system frees all memory at once.
    """
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*before)
        _done.set()


def leave(status: object) -> None:
    """End the process at once after such a command: Python would free each object before.

    Functions that were registered for the exit run first, and all output is written. Where either
    could be incomplete, or if a profiler or tracer writes its results later, this returns, and the
    process ends as usual.
    """
    if not _done.is_set() or threading.active_count() > 1 or not isinstance(status, int):
        return
    if sys.getprofile() or sys.gettrace():
        return
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None if closed by the caller
            stream.flush()
    except OSError:
        return
    os._exit(status)


def with_options(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Return what adds several options to a command, in this order."""

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def shown(file: Path) -> str:
    return click.format_filename(file)


def write_output(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise BadInputError(f"cannot write {shown(file)}: {error.strerror}") from error
