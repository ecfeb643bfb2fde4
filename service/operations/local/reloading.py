"""Notices changes of the checkout's source files, for `tallystick up --reload`."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
# Files that a running process has loaded: code, templates and the data files next to the code.
_WATCHED: Final = ("client", "detectors", "service", "templates", "worker.py")
_ENDINGS: Final = frozenset({".html", ".json", ".py", ".toml", ".txt"})
_STEADY_SECONDS: Final = 0.2

Times = dict[Path, int]


class SourceWatcher:
    """Compares the files' modification times with those of the last look."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._times = self._look()

    def find_change(self) -> str | None:
        """Return the name of a file that was changed, added or removed, once all are written."""
        times = self._look()
        if times == self._times:
            return None
        time.sleep(_STEADY_SECONDS)  # until an editor or a checkout has written the next file
        while (later := self._look()) != times:
            times = later
            time.sleep(_STEADY_SECONDS)
        changed = {path for path, _ in times.items() ^ self._times.items()}
        self._times = times
        return min(changed).relative_to(self._root).as_posix() if changed else None

    def _look(self) -> Times:
        times: Times = {}
        for name in _WATCHED:
            top = self._root / name
            for path in top.rglob("*") if top.is_dir() else (top,):
                if path.suffix in _ENDINGS:
                    with suppress(FileNotFoundError):  # removed since it was listed
                        times[path] = path.stat().st_mtime_ns
        return times
