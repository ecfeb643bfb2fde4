"""The sizes of folders and files that docs/decisions/12-rooms.md promises."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DECISION: Final = ROOT / "docs" / "decisions" / "12-rooms.md"
ROOMS: Final = (
    *("service", "detectors", "client", "templates"),
    *("docs", "examples", "benchmarks", "requirements", "migrations"),
)
MAX_ENTRIES: Final = 16
NUMBERED: Final = ROOT / "migrations" / "versions"  # each is found by its number
MIN_LINES: Final = 30


def _is_ours(path: Path) -> bool:
    """Skip what building and running leave behind, such as a moved folder's bytecode."""
    parts = path.relative_to(ROOT).parts
    if any(part.startswith((".", "__pycache__")) for part in parts) or path.suffix == ".egg-info":
        return False
    return path.is_file() or any(map(_is_ours, path.iterdir()))


@pytest.mark.parametrize("room", ROOMS)
def test_no_folder_has_more_than_fifteen_entries(room: str) -> None:
    folders = [path for path in (ROOT / room, *(ROOT / room).rglob("*")) if path.is_dir()]
    folders = [path for path in folders if _is_ours(path) and path != NUMBERED]
    entries = {
        str(folder.relative_to(ROOT)): sum(map(_is_ours, folder.iterdir())) for folder in folders
    }
    assert entries[room] > 1
    assert {name: count for name, count in entries.items() if count > MAX_ENTRIES} == {}


def test_small_files_have_a_reason() -> None:
    found = [
        path for room in ("service", "detectors", "client") for path in (ROOT / room).rglob("*.py")
    ]
    files = [path for path in found if path.name != "__init__.py"]
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    small = {name for name, count in lines.items() if count < MIN_LINES}
    reasons = set(re.findall(r"^\| `(\S+\.py)` \|", DECISION.read_text(), re.M))
    assert small - reasons == set(), "merge these into a neighbor or state why not"
    assert reasons - small == set(), "these no longer need a reason"
