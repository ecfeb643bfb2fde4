"""The table of metrics in docs/monitoring.md, and what a scrape shows."""

import re
from pathlib import Path
from typing import Final

GUIDE: Final = Path(__file__).parents[3] / "docs" / "monitoring.md"
_ROW: Final = re.compile(r"^\| `(tallystick_\w+)` \| (\w+) \| ([^|]+) \|", re.MULTILINE)
_FAMILY: Final = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
_SAMPLE: Final = re.compile(
    r"^(tallystick_\w+?)(?:_bucket|_sum|_count)?(?:{(.*)})? \S+$", re.MULTILINE
)

# A metric's type and the names of its labels.
Shape = tuple[str, tuple[str, ...]]


def documented() -> dict[str, Shape]:
    """Return the metrics of the table by their names."""
    rows = _ROW.findall(GUIDE.read_text())
    assert len(rows) == len({name for name, _, _ in rows}) > 30
    return {
        name: (kind, tuple(sorted(re.findall(r"[a-z]+", labels)))) for name, kind, labels in rows
    }


def exposed(text: str) -> dict[str, Shape]:
    """Return the metrics of a scrape by their names."""
    kinds = dict(_FAMILY.findall(text))
    found = {}
    for name, labels in _SAMPLE.findall(text):
        names = set(re.findall(r'(\w+)="', labels)) - {"le"}
        found[name] = (kinds[name], tuple(sorted(names)))
    return found
