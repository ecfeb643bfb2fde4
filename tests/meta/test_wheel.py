"""The wheel outside of the checkout: without extras only the library, with them the service."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from urllib.parse import urljoin

import pytest
import requests
from packaging.requirements import Requirement

from service.web.auth.browsers import SESSION_COOKIE
from tests.embedded.processes import wait_until
from tests.running import ONE_OF_EACH, ROOT, Up, plain_environment

SAMPLE = ROOT / "examples" / "sample-usage.jsonl"
NOTEBOOK = ROOT / "examples" / "audit_your_logs.ipynb"
ABSENT = ("flask", "sqlalchemy", "redis", "rq", "reportlab", "pandas", "duckdb", "pyspark")
# An import compiles what it needs. pip would take ten times as long.
INSTALL_OPTIONS = ("--quiet", "--no-deps", "--no-index")
Command = Sequence[str | Path]
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_UV = Path(sys.prefix) / "bin" / "uv"
PROBE = """
import importlib.util, json, detectors
found = [name for name in {absent!r} if importlib.util.find_spec(name)]
print(json.dumps([detectors.__file__, found]))
"""
# The pages that need no servers have every template, font and file beside the packages behind them.
PAGES = """
import json
from service.app import create_app
from service.config import Config
client = create_app(Config(
    secret_key="a secret key for tests, 32 or longer",
    database_url="postgresql://nobody@/none?host=/nowhere",
    redis_url="unix:///nowhere/valkey.sock",
    storage_url="file:///proc/nowhere",
)).test_client()
paths = ("/", "/sample", "/sample/pdf", "/docs", "/client/tallystick/", "/static/tallystick.css")
print(json.dumps({path: client.get(path).status_code for path in paths}))
# In the same process, because to import the service takes most of the time.
from detectors.cli import main
main(["migrate", "--sql"])
"""


def _run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    finished = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=900, check=False
    )
    assert finished.returncode == 0, finished.stderr[-3_000:]
    return finished.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder)
    _run(_UV, "build", "--wheel", *options, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with our wheel and only what the wheel requires, beside the sample log."""
    folder = tmp_path_factory.mktemp("empty")
    shutil.copy(SAMPLE, folder)
    _install(wheel, folder)
    return folder


@pytest.fixture(scope="module")
def served(wheel: Path, servers_folder: Path) -> Path:
    """An environment with our wheel and what its extras require, where any user can read it."""
    folder = servers_folder / "wheel"
    folder.mkdir(mode=0o711)
    _install(wheel, folder, "service", "embedded")
    return folder


def _install(wheel: Path, folder: Path, *extras: str) -> None:
    """Create an environment in `venv` with the wheel and what it requires with these extras.

    The requirements are linked from the developers' environment: downloading them again takes a
    minute, and the stress tests do that.
    """
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    _run(_UV, "pip", "install", "--python", python, *INSTALL_OPTIONS, wheel, cwd=folder)
    (site_packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (installed,) = metadata.distributions(path=[str(site_packages)])
    for name in _required_by(installed.requires or [], *extras):
        _link(metadata.distribution(name), site_packages)


def _required_by(requirements: list[str], *extras: str) -> set[str]:
    """Return the names of these requirements and of everything that they require in turn."""
    names: set[str] = set()
    waiting = [(Requirement(line), extra) for line in requirements for extra in ("", *extras)]
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
    install = 'pip install "tallystick-server[service,embedded]"'
    assert _run(command, "--help", cwd=empty).endswith(f"run:\n{install}\n")


def test_what_plays_the_providers_in_tests_is_not_in_the_wheel(wheel: Path) -> None:
    packed = [name for name in zipfile.ZipFile(wheel).namelist() if "/connections/" in name]
    assert "service/connections/openai/reports.py" in packed
    assert [name for name in packed if "stub" in name or "fixtures" in name] == []


def test_every_file_beside_the_packages_is_in_the_wheel(wheel: Path) -> None:
    expected = {
        f"service/resources/{path.relative_to(ROOT)}"
        for name in ("client", "examples/sample-usage.jsonl", "migrations", "templates")
        for path in (ROOT / name, *(ROOT / name).rglob("*"))
        if path.is_file() and not re.search(r"/(__pycache__|\..*)/", str(path.relative_to(ROOT)))
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if "/resources/" in name}
    assert packed == expected


def test_what_the_library_shares_with_the_client_is_in_the_wheel(wheel: Path) -> None:
    links = [path for path in (ROOT / "detectors").rglob("*.py") if path.is_symlink()]
    assert len(links) == 3
    for link in links:
        packed = zipfile.ZipFile(wheel).read(str(link.relative_to(ROOT)))
        assert packed == link.read_bytes()


def test_the_service_has_its_files_there(served: Path) -> None:
    """Under stress, `demo`, `up`, `migrate` and `backup` run as they are installed."""
    python = served / "venv" / "bin" / "python"
    pages, _, sql = _run(python, "-c", PAGES, cwd=served).partition("\n")
    shown = json.loads(pages)
    assert shown == {path: 200 for path in shown}
    assert "/sample/pdf" in shown
    assert "CREATE TABLE audits" in sql


@pytest.mark.stress
@pytest.mark.parametrize("install", ["pip", "uv tool", "uvx"])
def test_it_serves_with_libraries_from_the_index(
    install: str, wheel: Path, servers_folder: Path
) -> None:
    """By default, the pages with the libraries of the developers' environment."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o711)
    command = _install_from_index(install, f"{wheel}[service,embedded]", folder)
    settings = _settings(folder, _run(*command, "backup", "new-key", cwd=folder).strip())
    said = _run(*command, "demo", "--once", cwd=folder, env=settings)
    assert (folder / said.partition("Report: ")[2].strip()).is_file()
    up = type("Installed", (Up,), {"program": tuple(map(str, command))})(folder / "var", **settings)
    try:
        _sign_in_and_upload(up, command, settings)
        _keep(command, folder, settings)
        _run(*command, "backup", "verify", cwd=folder, env=settings)
    finally:
        status, said = up.stop(signal.SIGINT)
    assert status == 0, said


def _settings(folder: Path, backup_key: str) -> dict[str, str]:
    backups = {"BACKUP_URL": f"file://{folder}/backups", "BACKUP_KEY": backup_key}
    return {**plain_environment(), **ONE_OF_EACH, **backups}


def _keep(command: Command, folder: Path, settings: Mapping[str, str]) -> None:
    """Migrate the running service, and back it up."""
    _run(*command, "migrate", cwd=folder, env=settings)
    assert "audit" in _run(*command, "backup", "create", cwd=folder, env=settings)


def _install_from_index(install: str, what: str, folder: Path) -> Command:
    """Install the wheel with libraries from the machine's index; return what runs the command."""
    if install == "pip":
        venv.create(folder / "venv", symlinks=True)
        python = folder / "venv" / "bin" / "python"
        _run(*_PIP, "--python", python, "install", what, cwd=folder)
        return (folder / "venv" / "bin" / "tallystick",)
    if install == "uvx":
        run = (_UV, "tool", "run", "--python", sys.executable, "--from", what)
        _run(*run, "tallystick", "--version", cwd=folder)
        return (*run, "--offline", "tallystick")  # what is cached, without settings of the index
    folders = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    options = ("--quiet", "--python", sys.executable)
    _run(_UV, "tool", "install", *options, what, cwd=folder, env={**os.environ, **folders})
    return (folder / "bin" / "tallystick",)


def _sign_in_and_upload(up: Up, command: Command, settings: Mapping[str, str]) -> None:
    address, _, token = up.sign_in_line.split()[-1].partition("?token=")
    signed_in = requests.post(address, json={"token": token}, timeout=60)
    headers = {"Cookie": f"{SESSION_COOKIE}={signed_in.cookies[SESSION_COOKIE]}"}
    grant = ("admin", "grant", "owner@localhost")
    _run(*command, *grant, cwd=up.folder.parent, env=settings)
    with SAMPLE.open("rb") as log:
        uploads = f"{up.base_url}/api/v1/audits"
        sent = requests.post(uploads, files={"file": log}, headers=headers, timeout=60)
    assert sent.status_code == 201, sent.text
    _read_report(f"{up.base_url}/audits/{sent.json()['audit_id']}", headers)


def _read_report(page: str, headers: Mapping[str, str] | None = None) -> None:
    """Read the report, its PDF and the client's wheel, with the headers of a browser."""

    def read(address: str) -> requests.Response:
        return requests.get(urljoin(page, address), headers=headers, timeout=60)

    assert wait_until(lambda: "Oversized model" in read(page).text, 60)
    assert read(f"{page}/pdf").content.startswith(b"%PDF-")
    (link,) = re.findall('href="([^"#]+)#', read("/client/tallystick/").text)
    assert read(link).content.startswith(b"PK")
