"""Which tests share a server, and so a test process; and which are too slow for the inner loop."""

from typing import Final

import pytest

# Session-wide servers that are expensive to start, the longest group first.
_SHARED: Final = (
    "target",
    "running_mailing_system",
    "running_system",
    "live",
    "administered",
)
# Fixtures that start processes: gunicorn, workers, a second PostgreSQL, Chromium.
_STARTS_PROCESSES: Final = frozenset(
    {
        *_SHARED,
        "browser",
        "default_system",
        "private_servers",
        "environment",
        "up",
        "clone",
        "empty",
    }
)
# Folders and files whose tests mostly start programs of their own or wait for them.
_SLOW_PATHS: Final = (
    "tests/browser/",
    "tests/embedded/",
    "tests/worker/reliability/",
    "tests/worker/operations/",
    "tests/service/cli/test_up.py",
    "tests/service/cli/test_demo.py",
    "tests/service/core/test_db.py",
    "tests/detectors/engines/",
    "tests/meta/test_imports.py",
    "tests/meta/test_readme.py",
    "tests/meta/test_wheel.py",
)
# These begin first: what takes longest must not be what everything else waits for at the end.
_FIRST: Final = (
    "browser",
    "target",
    "spark",
    "running_system reliability",
    "running_system",
    "tests/service/cli/test_up.py",
    "tests/meta/test_readme.py",
    "running_mailing_system",
    "tests/meta/test_api_guides.py",
)


def arrange(items: list[pytest.Item]) -> None:
    """Put tests that share a server into one group, the long groups first, and mark the slow."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
        if _is_slow(item):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _turn(groups[item], item))


def _group(item: pytest.Item) -> str:
    """Return the server that a test shares with tests of other files, or else its file."""
    path = item.nodeid.partition("::")[0]
    if "spark" in item.name:
        return "spark"
    if path.startswith("tests/browser/"):
        return "browser"
    for fixture in _SHARED:
        if fixture in getattr(item, "fixturenames", ()):
            # Two groups of these, for two processes: the tests mostly wait.
            return fixture + " reliability" * path.startswith("tests/worker/reliability/")
    return path


def _is_slow(item: pytest.Item) -> bool:
    starts_processes = _STARTS_PROCESSES & set(getattr(item, "fixturenames", ()))
    return bool(starts_processes) or "spark" in item.name or item.nodeid.startswith(_SLOW_PATHS)


def _turn(group: str, item: pytest.Item) -> tuple[int, int]:
    waits = not item.nodeid.startswith("tests/worker/")
    return (_FIRST.index(group) if group in _FIRST else len(_FIRST), waits)
