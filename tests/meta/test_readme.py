"""Every command that the README shows is run, in its order, in a folder like a fresh clone.

`make test` is only looked up, not run: it would run this test again.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SHOWN_PORT = "8000"
DETECTORS = re.findall(r"^\| `(d\d_\w+)` \|", README, re.MULTILINE)

# What stands between a command that serves and the next one: wait until it says that it is ready.
UP = """
tallystick up --port {port} > up.txt &
up=$!
trap 'kill $up; wait $up' EXIT
for _ in $(seq 600); do grep -q ready up.txt && break; kill -0 $up; sleep 0.1; done
"""
DEMO = """
set -m
make demo > demo.txt &
demo=$!
for _ in $(seq 600); do grep -q Serving demo.txt && break; kill -0 $demo; sleep 0.1; done
kill -INT -- -$demo
wait $demo || true
set +m
"""
STAND_INS = {"tallystick up": UP, "make demo": DEMO, "make test": "make --dry-run test"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def script(port: int) -> str:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = "\n".join(STAND_INS.get(line, line) for line in lines)
    return "set -eu\n" + commands.replace("{port}", str(port)).replace(SHOWN_PORT, str(port))


@pytest.fixture
def clone(servers_folder: Path) -> Path:
    """The files of the checkout with data of its own, and the environment as make leaves it."""
    clone = Path(tempfile.mkdtemp(dir=servers_folder))
    clone.chmod(0o711)
    for path in ROOT.iterdir():
        if path.name not in {".venv", ".git", "var"}:
            (clone / path.name).symlink_to(path)
    (clone / ".venv").mkdir()
    for path in Path(sys.prefix).iterdir():
        (clone / ".venv" / path.name).symlink_to(path)
    for stamp in (".service-installed", ".dev-installed"):
        (clone / ".venv" / stamp).unlink(missing_ok=True)
        (clone / ".venv" / stamp).touch()
    return clone


def plain_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "make", "curl", "awk"))),
    reason="bash, make, curl or awk is not installed",
)
def test_every_command_works(clone: Path) -> None:
    run = subprocess.run(
        ["bash", "-c", script(free_port())],
        cwd=clone,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Serving at http://localhost:" in (clone / "demo.txt").read_text()
    assert (clone / "report.json").read_text().startswith('{"audit":')
    for said in ('"replayed":false', '"audits":[', '"findings":[', '"openapi": "3.1.0"'):
        assert said in run.stdout
    assert "sent: True" in run.stdout
    assert "Report: http://localhost:" in run.stdout
    for detector in DETECTORS:
        assert detector in run.stdout


def test_six_detectors_are_listed() -> None:
    assert len(DETECTORS) == 6


def test_every_library_example_works(clone: Path) -> None:
    for example in blocks("python"):
        run = subprocess.run(
            [sys.executable, "-c", example], cwd=clone, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        assert "d1_model_overkill" in run.stdout


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
