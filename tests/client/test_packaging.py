"""The distribution: what it holds, what it needs, where it runs, and beside what."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import tallystick
from tests.client.environments import (
    CLIENT,
    LOCKS,
    ROOT,
    environment_python,
    interpreters,
    plain_environment,
    run,
)
from tests.worker.support.promises import sampled

PROJECT = tomllib.loads((CLIENT / "pyproject.toml").read_text())
# Everything that needs no provider's library: what is captured by `record()`, sent and tagged, in a
# process and in one forked off, and an import that is hooked.
ON_ANY_PYTHON = """
import os, sys, types
sys.path.insert(0, {folder!r})
from tests.client.collector import Collector
with Collector() as collector:
    os.environ["SERVICE_DSN"] = collector.dsn
    import tallystick
    tallystick.init(environment="any", prefix_hash=True)
    import openai._base_client
    client = openai._base_client.SyncAPIClient()

    @tallystick.tag("decorated")
    def ask():
        return client.request(dict, openai._base_client.Options())

    assert ask() == {{"usage": {{"prompt_tokens": 3, "completion_tokens": 2}}, "model": "m"}}
    assert tallystick.record(model="n", prompt_tokens=1, completion_tokens=1)
    assert tallystick.flush(10)
    child = os.fork()
    if not child:
        ask()
        assert tallystick.flush(10)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert collector.problems == [], collector.problems
    tags = sorted(record.get("tag", record["environment"]) for record in collector.records)
    assert tags == ["any", "decorated", "decorated"], collector.records
    assert tallystick.stats()["faults"] == 0
"""
LOOKALIKE = """
class Options:
    def __init__(self):
        self.method, self.url = "post", "/chat/completions"
        self.json_data = {"model": "m", "messages": [{"content": "x"}]}

class SyncAPIClient:
    def request(self, cast_to, options, *, stream=False, stream_cls=None):
        return {"usage": {"prompt_tokens": 3, "completion_tokens": 2}, "model": "m"}

class AsyncAPIClient(SyncAPIClient):
    pass
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = ["-m", "uv", "build", "--quiet", "--wheel", "--no-build-isolation"]
    subprocess.run(
        [
            sys.executable,
            *command,
            "--python",
            sys.executable,
            "--out-dir",
            str(folder),
            str(CLIENT),
        ],
        check=True,
        timeout=120,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_it_needs_nothing_but_python_and_has_one_version() -> None:
    assert PROJECT["project"]["dependencies"] == []
    assert PROJECT["project"]["requires-python"] == ">=3.9"
    assert PROJECT["project"]["name"] == "tallystick"
    # The version is defined once.
    assert PROJECT["project"]["version"] == tallystick.__version__


def test_the_wheel_contains_the_package_its_types_and_its_license(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        text = archive.read(metadata).decode()
    modules = {str(path.relative_to(CLIENT)) for path in (CLIENT / "tallystick").rglob("*.py")}
    assert modules | {"tallystick/py.typed"} <= names
    assert any(name.endswith("LICENSE") for name in names)
    assert all(name.startswith("tallystick") for name in names)
    assert "Requires-Dist" not in text


def test_the_wheel_has_a_command_and_a_plugin_of_pytest(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        text = archive.read(points).decode().split()
    assert text[:4] == ["[console_scripts]", "tallystick-check", "=", "tallystick.__main__:check"]
    assert text[4:] == ["[pytest11]", "tallystick", "=", "tallystick.testing"]


def test_it_installs_beside_the_server_without_a_file_of_both(wheel: Path) -> None:
    server = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert server["project"]["name"] != PROJECT["project"]["name"]
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    shipped = server["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert not tops & {Path(name).parts[0] for name in shipped["only-include"]}
    # Both are installed here: the command is the server's, the module the client's.
    command = Path(sys.executable).with_name("tallystick")
    assert "detectors.cli" in command.read_text()
    assert Path(tallystick.__file__).parent == CLIENT / "tallystick"


def test_vermin_finds_no_newer_syntax_than_declared() -> None:
    vermin = Path(sys.executable).with_name("vermin")
    found = subprocess.run(
        [str(vermin), "--target=3.9-", "--no-tips", "--violations", str(CLIENT / "tallystick")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("version", sampled(interpreters(), 4))
def test_it_runs_on_every_interpreter_of_this_machine(version: str, tmp_path: Path) -> None:
    (tmp_path / "openai").mkdir()
    (tmp_path / "openai" / "__init__.py").touch()
    (tmp_path / "openai" / "_base_client.py").write_text(LOOKALIKE)
    program = ON_ANY_PYTHON.format(folder=str(tmp_path))
    run(interpreters()[version], "-W", "error", "-c", program)


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_the_types_hold_at_the_oldest_python() -> None:
    """By the last mypy that knows it; `make check` looks at the current one."""
    python = environment_python(LOCKS / "mypy-1.19.lock")
    command = ["-m", "mypy", "--strict", "--python-version=3.9", "--ignore-missing-imports"]
    command += ["--allow-untyped-decorators"]  # of pytest, which that environment does not have
    checked = subprocess.run(
        [python, *command, "--config-file=", str(CLIENT / "tallystick")],
        cwd=CLIENT,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
