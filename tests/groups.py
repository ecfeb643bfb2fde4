"""Which tests share a server, and so a test process; and which are too slow for the inner loop."""

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

_SHARED: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_STARTS_PROCESSES: Final = frozenset(_SHARED["starts_processes"])
_SLOW_PATHS: Final = tuple(_SHARED["slow"])
_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(paths) for name, paths in _SHARED["groups"].items()
}
_SPARK: Final = "spark"
# The cases of the detectors on engines other than Polars.
_OTHER_ENGINES: Final = ("[pandas-", "[duckdb-")


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand each group of tests to one process, the groups in the order in which they came.

    The `loadgroup` of xdist 3.8 groups nothing: it marks node ids in a way that pytest 9.2 ignores.
    """
    by_server = LoadScopeScheduling(config, log)
    by_server._split_scope = _group
    return by_server


def arrange(items: list[pytest.Item]) -> None:
    """Put the long groups first, and mark the slow tests."""
    for item in items:
        if _is_slow(item):
            item.add_marker(pytest.mark.slow)
    order = [*_GROUPS, _SPARK]
    turns = {name: number for number, name in enumerate(order)}
    items.sort(key=lambda item: turns.get(_group(item.nodeid), len(order)))


def _group(nodeid: str) -> str:
    path, _, name = nodeid.partition("::")
    if _SPARK in name:
        return _SPARK
    for group, paths in _GROUPS.items():
        if path.startswith(paths):
            return group
    return path


def _is_slow(item: pytest.Item) -> bool:
    starts_processes = _STARTS_PROCESSES & set(getattr(item, "fixturenames", ()))
    other_engine = any(engine in item.name for engine in (_SPARK, *_OTHER_ENGINES))
    return bool(starts_processes) or other_engine or item.nodeid.startswith(_SLOW_PATHS)
