"""Every command of the README runs, in order, in a folder like a fresh clone.

`make test` is a dry run, because it would run this test again. `make demo ONCE=1` is one, too:
`tests/service/cli/` runs its command. Under stress, `make demo` and `tallystick up` run
here; by default, `make demo` is a dry run, and the `up` of all tests runs in the folder.
"""

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.running import Up, make_clone, plain_environment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SHOWN_PORT = "8000"
NEEDS_PROGRAMS = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "make", "curl", "awk"))),
    reason="bash, make, curl or awk is not installed",
)
DETECTORS = re.findall(r"^\| [^|]+ \| `(d\d_\w+)` \|", README, re.MULTILINE)

DRY_RUNS = {"make demo ONCE=1": "make --dry-run demo ONCE=1", "make test": "make --dry-run test"}
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
STAND_INS = {**DRY_RUNS, "tallystick up": UP, "make demo": DEMO}
# Each example with its own imports alone.
RUN_EACH = """
import sys
for example in sys.argv[1:]:
    exec(example, {"__name__": "__main__"})
    print("end of an example")
"""
# Where `up` runs already.
BESIDE_UP = {**DRY_RUNS, "tallystick up": ":", "make demo": "make --dry-run demo"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def script(port: int, stand_ins: Mapping[str, str]) -> str:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = "\n".join(stand_ins.get(line, line) for line in lines)
    return "set -eu\n" + commands.replace("{port}", str(port)).replace(SHOWN_PORT, str(port))


@pytest.fixture
def clone(servers_folder: Path) -> Path:
    return make_clone(servers_folder)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@NEEDS_PROGRAMS
def test_every_command_works(up: Up) -> None:
    clone = up.folder.parent
    printed = run(script(up.port, BESIDE_UP), clone)
    assert re.search("tallystick demo *$", printed, re.MULTILINE)
    check(printed, clone)


@NEEDS_PROGRAMS
@pytest.mark.stress
def test_every_command_works_on_a_machine_where_nothing_runs(clone: Path) -> None:
    check(run(script(free_port(), STAND_INS), clone), clone)
    assert "Serving at http://localhost:" in (clone / "demo.txt").read_text()


def run(commands: str, clone: Path) -> str:
    run = subprocess.run(
        ["bash", "-c", commands],
        cwd=clone,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def check(printed: str, clone: Path) -> None:
    """Check what the commands of the README printed and saved in this folder."""
    assert "tallystick demo --once" in printed
    report = (clone / "report.json").read_text()
    assert report.startswith('{"audit":')
    for detector in DETECTORS:
        assert f'"detector":"{detector}"' in report
    for line in ('"replayed":false', '"audits":[', '"openapi": "3.1.0"', "sent: True"):
        assert line in printed
    findings = printed.partition('"status":"done"')[2]
    assert '"detector":"d1_model_overkill"' in findings, "the findings are read too early"
    assert "mail-sorting" in printed, "the scrubbed example has no finding"


def test_every_library_example_works(clone: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RUN_EACH, *blocks("python")],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    printed = ran.stdout.split("end of an example\n")
    assert len(printed) == len(blocks("python")) + 1
    assert all("d1_model_overkill" in each for each in printed[:-1])


def test_the_comparison_is_of_two_periods() -> None:
    (example,) = (one for one in blocks("python") if ".compare(" in one)
    assert "PriceBook" not in example


def test_every_link_has_a_target() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
