"""Every setting is documented, and only one module reads it."""

import re
from dataclasses import MISSING, fields
from pathlib import Path

from service.config import Config

ROOT = Path(__file__).parents[2]


def test_every_setting_is_documented_with_its_default() -> None:
    rows = {
        cells[0].strip("` "): cells[1].strip("` ")
        for line in (ROOT / "docs" / "settings.md").read_text().splitlines()
        if line.startswith("| `") and len(cells := line.strip("|").split("|")) >= 3
    }
    for setting in fields(Config):
        name = setting.name.upper()
        assert name in rows, f"{name} is not in docs/settings.md"
        if setting.default is not MISSING:
            assert _as_number(rows[name]) == _as_number(str(setting.default) or "empty"), name


def _as_number(text: str) -> float | str:
    digits = text.replace(",", "")
    return float(digits) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", digits) else text


def test_the_environment_is_read_by_the_settings_alone() -> None:
    readers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "service").rglob("*.py")
        if re.search(r"os\.environ\b(?!\s*\})|getenv", path.read_text())
    }
    assert "service/config/settings.py" in readers
    web = {one for one in readers if re.match(r"service/(api|pages|reports|models)/", one)}
    assert web == set()
