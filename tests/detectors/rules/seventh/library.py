"""A copy of the library with a seventh detector: one file more, and one line in the tuple."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[4]
DETECTOR_FILE: Final = Path(__file__).parent / "long_answers.py"
LAST_LINE: Final = '    "chatty_loop",\n'
NEW_LINE: Final = '    "long_answers",\n'
LOG: Final = "usage.csv"
# 9,000 tokens out at $15 and 500 in at $2.50 per million: $0.13625 a call, $5.45 in all.
CALL: Final = "2026-11-02T{hour:02}:{minute:02}:00Z,openai,gpt-5.4,essays,500,9000\n"


def make_library(folder: Path) -> Path:
    """Copy the library and its docs, register the detector, and write a log for it."""
    shutil.copytree(
        ROOT / "detectors", folder / "detectors", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(DETECTOR_FILE, folder / "detectors" / "rules")
    registry = folder / "detectors" / "rules" / "__init__.py"
    source = registry.read_text("utf-8")
    assert source.count(LAST_LINE) == 1
    registry.write_text(source.replace(LAST_LINE, LAST_LINE + NEW_LINE), "utf-8")
    calls = "".join(CALL.format(hour=n // 4, minute=n % 4 * 15) for n in range(40))
    header = "ts,provider,model,tag,prompt_tokens,completion_tokens\n"
    (folder / LOG).write_text(header + calls)
    return folder


def run(folder: Path, *arguments: str) -> str:
    """Run Python in the folder, whose library comes before the installed one."""
    environment = os.environ | {"COLUMNS": "160", "PYTHONPATH": str(folder)}
    finished = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout
