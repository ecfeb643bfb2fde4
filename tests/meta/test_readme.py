"""Every command of the README runs, in order, in a folder like a fresh clone.

`make test` is a dry run, because it would run this test again. `make demo ONCE=1` is one, too:
`tests/service/cli/test_demo.py` runs its command.
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
DETECTORS = re.findall(r"^\| [^|]+ \| `(d\d_\w+)` \|", README, re.MULTILINE)

# Stand-ins for commands that keep running: start them, then wait until they are ready.
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
STAND_INS = {
    "tallystick up": UP,
    "make demo": DEMO,
    "make demo ONCE=1": "make --dry-run demo ONCE=1",
    "make test": "make --dry-run test",
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def script(port: int) -> str:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = "\n".join(STAND_INS.get(line, line) for line in lines)
    return "set -eu\n" + commands.replace("{port}", str(port)).replace(SHOWN_PORT, str(port))


@pytest.fixture
def clone(servers_folder: Path) -> Path:
    """Create a folder with the checkout's files, data of its own and an installed environment."""
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
    assert "tallystick demo --once" in run.stdout
    report = (clone / "report.json").read_text()
    assert report.startswith('{"audit":')
    for detector in DETECTORS:
        assert f'"detector":"{detector}"' in report
    for printed in ('"replayed":false', '"audits":[', '"openapi": "3.1.0"', "sent: True"):
        assert printed in run.stdout
    findings = run.stdout.partition('"status":"done"')[2]
    assert '"detector":"d1_model_overkill"' in findings, "the findings are read too early"
    assert "mail-sorting" in run.stdout, "the scrubbed example has no finding"


def test_every_library_example_works(clone: Path) -> None:
    for example in blocks("python"):
        run = subprocess.run(
            [sys.executable, "-c", example], cwd=clone, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        assert "d1_model_overkill" in run.stdout


def test_the_comparison_is_of_two_periods() -> None:
    (example,) = (one for one in blocks("python") if ".compare(" in one)
    assert "PriceBook" not in example


def test_every_link_has_a_target() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
