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
    """Import modules in a thread while others compute; it ends with the block.

    This saves time only where they hardly hold the interpreter's lock, as the dataframe library.
    """

    def import_all() -> None:
        # The same error comes where the module is used.
        with suppress(Exception):
            for name in names:
                import_module(name)

    thread = Thread(target=import_all, name="imports")
    thread.start()
    try:
        yield
    finally:
        thread.join()
