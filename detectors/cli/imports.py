"""Imports of modules that a command needs later than others, or not at all."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread
from types import ModuleType


def import_uncollected(name: str) -> ModuleType:
    """Import a module without looking for garbage, which a module isn't."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


@contextmanager
def imported_meanwhile(*names: str) -> Iterator[None]:
    """Import modules in a thread, in this order, while other threads compute.

    The dataframe library computes without the interpreter's lock. Who needs a module earlier waits
    for it. The thread ends with the block.
    """
    thread = Thread(target=_import_all, args=names, name="imports")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _import_all(*names: str) -> None:
    # An error comes again, and is shown, where the module is used.
    with suppress(Exception):
        for name in names:
            import_module(name)
