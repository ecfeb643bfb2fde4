"""What `tallystick up --reload` takes for a change of the code."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from service.cli.up import SourceWatcher
from tests.running import ROOT

Change = Callable[[Path], object]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("service/web", "templates/pages", "detectors", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("worker.py", "service/app.py", "templates/pages/home.html", "docs/README.md"):
        (tmp_path / name).write_text("before")
    return tmp_path


def later(path: Path) -> None:
    """Give the file a later time, as saving it does."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1_000_000))


def test_a_change_of_code_is_noticed_once(checkout: Path) -> None:
    watcher = SourceWatcher(checkout)
    assert watcher.find_change() is None
    changes: list[tuple[str, Change]] = [
        ("worker.py", later),
        ("service/app.py", later),
        ("service/app.py", Path.unlink),
        ("service/web/added.py", Path.touch),
        ("templates/pages/home.html", later),
        ("detectors/rates.toml", Path.touch),
    ]
    for name, change in changes:
        change(checkout / name)
        assert watcher.find_change() == name
        assert watcher.find_change() is None
    for name in ("docs/README.md", "service/app.pyc", "service/app.py.swp"):
        (checkout / name).write_text("after")
        assert watcher.find_change() is None, name


def test_it_watches_this_checkout() -> None:
    watched = set(SourceWatcher()._look())
    assert {ROOT / "worker.py", ROOT / "service" / "app.py"} <= watched
    assert any(path.suffix == ".html" for path in watched)
