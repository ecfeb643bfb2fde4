"""`pip install .` without extras installs only the library and its dependencies."""

import json
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "audit_your_logs.ipynb"
ABSENT = ("flask", "sqlalchemy", "redis", "rq", "reportlab", "pandas", "duckdb", "pyspark")
# An import compiles what it needs; pip would compile the service, too.
INSTALL_OPTIONS = ("--no-deps", "--no-index", "--no-compile")
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
    """An environment with our wheel and only what the wheel requires, beside the sample log.

    The requirements are linked from the developers' environment: downloading them again takes a
    minute and would show nothing more.
    """
    folder = tmp_path_factory.mktemp("empty")
    shutil.copy(ROOT / "examples" / "sample-usage.jsonl", folder)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    _run(*pip, "--python", python, "install", *INSTALL_OPTIONS, wheel, cwd=folder)
    (site_packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (installed,) = metadata.distributions(path=[str(site_packages)])
    for name in _required_by(installed.requires or []):
        _link(metadata.distribution(name), site_packages)
    return folder


def _required_by(requirements: list[str]) -> set[str]:
    """Return the names of these requirements and of everything that they require in turn."""
    names: set[str] = set()
    waiting = [(Requirement(line), "") for line in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name not in names or requirement.extras:
            names.add(requirement.name)
            lines = metadata.requires(requirement.name) or []
            waiting += [
                (Requirement(line), extra) for line in lines for extra in ("", *requirement.extras)
            ]
    return names


def _link(distribution: metadata.Distribution, site_packages: Path) -> None:
    for top in {path.parts[0] for path in distribution.files or []} - {"..", "__pycache__"}:
        link = site_packages / top
        if not link.exists():
            link.symlink_to(Path(str(distribution.locate_file(top))))


def test_the_library_is_there_and_no_web_service(empty: Path) -> None:
    python = empty / "venv" / "bin" / "python"
    said = _run(python, "-c", PROBE.format(absent=ABSENT), cwd=empty)
    assert str(empty) in said  # the installed library, not this checkout's
    assert said.strip().endswith(", []]")


@pytest.mark.stress
def test_the_notebooks_code_works_there(empty: Path) -> None:
    """By default, the command and the library do."""
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (empty / "walk.py").write_text("\n".join([*code, "print(report._repr_html_())"]))
    said = _run(empty / "venv" / "bin" / "python", "walk.py", cwd=empty)
    assert "avoidable spend: $" in said
    assert "You spend about $" in said


def test_the_command_works_there_and_says_what_is_missing(empty: Path) -> None:
    command = empty / "venv" / "bin" / "tallystick"
    assert "Oversized model" in _run(command, "audit", "sample-usage.jsonl", cwd=empty)
    assert "a library is missing: the commands of service" in _run(command, "--help", cwd=empty)
