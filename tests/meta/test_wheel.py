"""`pip install .` without extras: the library and what it needs, and nothing of a web service."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "audit_your_logs.ipynb"
ABSENT = ("flask", "sqlalchemy", "redis", "rq", "reportlab", "pandas", "duckdb", "pyspark")
PROBE = """
import importlib.util, json, detectors
found = [name for name in {absent!r} if importlib.util.find_spec(name)]
print(json.dumps([detectors.__file__, found]))
"""


def _run(*command: str | Path, cwd: Path) -> str:
    finished = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=250, check=False
    )
    assert finished.returncode == 0, finished.stderr[-3_000:]
    return finished.stdout


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that was empty until `pip install .`, beside the sample log alone.

    The versions are those of the lock, so that a release elsewhere changes nothing here.
    """
    folder = tmp_path_factory.mktemp("empty")
    pins = re.findall(r"^([\w.-]+==[^ ]+)", (ROOT / "requirements" / "dev.lock").read_text(), re.M)
    (folder / "pins.txt").write_text("\n".join(pins))
    shutil.copy(ROOT / "examples" / "sample-usage.jsonl", folder)
    _run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    pip = (folder / "venv" / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
    _run(*pip, "install", "--quiet", "--constraint", folder / "pins.txt", ROOT, cwd=folder)
    return folder


def test_the_library_is_there_and_no_web_service(empty: Path) -> None:
    python = empty / "venv" / "bin" / "python"
    said = _run(python, "-c", PROBE.format(absent=ABSENT), cwd=empty)
    assert str(empty) in said  # the installed library, not this checkout's
    assert said.strip().endswith(", []]")


def test_the_notebooks_code_works_there(empty: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    code = [cell["source"] for cell in notebook.cells if cell["cell_type"] == "code"]
    (empty / "walk.py").write_text("\n".join([*code, "print(report._repr_html_())"]))
    said = _run(empty / "venv" / "bin" / "python", "walk.py", cwd=empty)
    assert "together: $" in said
    assert "You spend about $" in said


def test_the_command_works_there_and_says_what_is_missing(empty: Path) -> None:
    command = empty / "venv" / "bin" / "tallystick"
    assert "d1_model_overkill" in _run(command, "audit", "sample-usage.jsonl", cwd=empty)
    assert "a library is missing: the commands of service" in _run(command, "--help", cwd=empty)
