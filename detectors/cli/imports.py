"""Imports of modules that a command needs later than others, or not at all."""

import gc
from importlib import import_module
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
