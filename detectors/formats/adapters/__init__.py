"""Adapters of the logs and exports of other tools: one package per source, in a room by kind.

Each has its sample log, the records expected of it and its documentation beside it. They are
imported when a file is in none of the formats of this package's own.
"""

from collections.abc import Iterator
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


def find_adapters(row: Row) -> Iterator[Adapter]:
    """Yield the adapters that recognize the row, in an order that is not that of its members."""
    by_sign = _by_sign()
    found = {rank: adapter for name in row.names() for rank, adapter in by_sign.get(name, ())}
    for rank in sorted(found):
        if found[rank].recognizes(row):
            yield found[rank]


def find_adapter(row: Row) -> Adapter | None:
    """Return the first adapter that recognizes the row; None if none does."""
    return next(find_adapters(row), None)


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
def _by_sign() -> dict[str, list[tuple[int, Adapter]]]:
    """Return the adapters by name of a member that only their rows have, or few others."""
    found: dict[str, list[tuple[int, Adapter]]] = {}
    for rank, adapter in enumerate(adapters().values()):
        for sign in adapter.signs:
            found.setdefault(sign, []).append((rank, adapter))
    return found
