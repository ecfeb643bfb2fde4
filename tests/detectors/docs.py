"""What the docs must hold of each detector: a page of its own, and a row in two tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from detectors.rules.detector import Detector
from detectors.wording.names import Introduction

ROOT: Final = Path(__file__).parents[2]
TABLES: Final = ("README.md", "docs/glossary.md")
HEADINGS: Final = ("Costs you", "Fires on", "Stays quiet on", "Do instead", "Sources")


def missing_from_docs(
    detector: Detector, introduction: Introduction, root: Path = ROOT
) -> list[str]:
    """Return what the docs under the root lack; nothing where they are complete."""
    page = root / page_path(detector.id)
    text = page.read_text("utf-8") if page.exists() else ""
    row = table_row(detector.id, introduction)
    parts = [part for part in _parts(detector, introduction) if part not in text]
    tables = [table for table in TABLES if row not in (root / table).read_text("utf-8")]
    return [f"{page.name}: {part}" for part in parts] + tables


def page_path(detector_id: str) -> str:
    return f"docs/detectors/{detector_id.partition('_')[2]}.md"


def table_row(detector_id: str, introduction: Introduction) -> str:
    return f"| {introduction.name} | `{detector_id}` | {introduction.summary.removesuffix('.')} |\n"


def _parts(detector: Detector, introduction: Introduction) -> Iterator[str]:
    yield f"# {introduction.name}\n\n`{detector.id}`\n"
    yield from (f"\n## {heading}\n" for heading in HEADINGS)
    yield from (f"`{name}`" for name in detector.thresholds)
