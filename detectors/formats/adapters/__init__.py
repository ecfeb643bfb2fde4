"""Adapters of the logs and exports of other tools: one package per source, in a room by kind.

Each has its sample log, the records expected of it and its documentation beside it. They are
imported when a file is in none of the formats of this package's own.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from detectors.formats.adapters.adapter import Adapter, State, Sums
from detectors.formats.adapters.calls import NO_USAGE, Sighting
from detectors.formats.adapters.providers.totals import OTHER_SUMS
from detectors.formats.adapters.rows import Row


@cache
def adapters() -> dict[str, Adapter]:
    """Return every adapter by the name of its package: `gateways.litellm`."""
    prefix = f"{__name__}."
    packages = [found.name for found in walk_packages(__path__, prefix) if found.ispkg]
    modules = {name.removeprefix(prefix): import_module(name) for name in sorted(packages)}
    return {name: module.ADAPTER for name, module in modules.items() if hasattr(module, "ADAPTER")}


def find_adapters(row: Row) -> Iterator[Adapter]:
    by_sign = _by_sign()
    signed = {rank: adapter for name in row.names() for rank, adapter in by_sign.get(name, ())}
    return (signed[rank] for rank in sorted(signed) if signed[rank].recognizes(row))


def read_row(
    row: Row, states: dict[str, State], path: Path | None = None
) -> tuple[Adapter | None, list[Sighting | str]]:
    """Return the adapter that can read the row, or the first that recognizes it, and its calls.

    An adapter may claim a row that only another can read. `states` has what each remembers of the
    file, or of the files beside it, if it has a path.
    """
    first: tuple[Adapter | None, list[Sighting | str]] = (None, [])
    for adapter in find_adapters(row):
        if adapter.title not in states:
            states[adapter.title] = adapter.beside(path) if path else {}
        found = list(adapter.read(row, states[adapter.title]))
        for seen in found:
            if isinstance(seen, Sighting):
                seen.way = adapter.title
        if any(seen != NO_USAGE if isinstance(seen, str) else seen.readings for seen in found):
            return adapter, found
        first = (adapter, found) if first[0] is None else first
    return first


def export_signs() -> list[str]:
    """Return the names of members that only rows of these sources have, or few others."""
    return sorted(_by_sign())


def all_sums() -> list[Sums]:
    return [*(adapter.sums for adapter in adapters().values() if adapter.sums), *OTHER_SUMS]


def find_sums(row: Row) -> Sums | None:
    return next((sums for sums in all_sums() if sums.recognizes(row)), None)


@cache
def _by_sign() -> dict[str, list[tuple[int, Adapter]]]:
    """Return the adapters by name of a member that only their rows have, or few others."""
    found: dict[str, list[tuple[int, Adapter]]] = {}
    for rank, adapter in enumerate(adapters().values()):
        for sign in adapter.signs:
            found.setdefault(sign, []).append((rank, adapter))
    return found
