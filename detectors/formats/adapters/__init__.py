"""Adapters of the logs and exports of other tools: one package per source, in a room by kind.

Each has its sample log, the records expected of it and its documentation beside it. They are
imported when a file is in none of the formats of this package's own.
"""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from detectors.formats.adapters.adapter import Adapter, Sums
from detectors.formats.adapters.rows import Row


@cache
def adapters() -> dict[str, Adapter]:
    """Return every adapter by the name of its package: `gateways.litellm`."""
    prefix = f"{__name__}."
    packages = [found.name for found in walk_packages(__path__, prefix) if found.ispkg]
    modules = {name.removeprefix(prefix): import_module(name) for name in sorted(packages)}
    return {name: module.ADAPTER for name, module in modules.items() if hasattr(module, "ADAPTER")}


def find_adapter(row: Row) -> Adapter | None:
    """Return the adapter that recognizes the row; None if none does."""
    by_sign = _by_sign()
    for name in row.names():
        for adapter in by_sign.get(name, ()):
            if adapter.recognizes(row):
                return adapter
    return None


def export_signs() -> list[str]:
    """Return the names of members that only rows of these sources have, or few others."""
    return sorted(_by_sign())


def all_sums() -> list[Sums]:
    """Return what the totals of each source that has them look like."""
    return [adapter.sums for adapter in adapters().values() if adapter.sums]


def find_sums(row: Row) -> Sums | None:
    """Return what the row is if it is a total of many calls."""
    return next((sums for sums in all_sums() if sums.recognizes(row)), None)


@cache
def _by_sign() -> dict[str, list[Adapter]]:
    """Return the adapters by name of a member that only their rows have, or few others."""
    found: dict[str, list[Adapter]] = {}
    for adapter in adapters().values():
        for sign in adapter.signs:
            found.setdefault(sign, []).append(adapter)
    return found
