"""`deploy/systemd`: verified, hardened, and equal to the Procfile and settings."""

import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import pytest

from service.cli.command import CommandError, UnreachableError
from service.config import Config
from tests.deploy.manifests import (
    BACKUP,
    DEPLOY,
    MIGRATE,
    PROCESSES,
    SETTINGS,
    STOP_SECONDS,
    WEB_PORT,
    run,
    tool,
)

UNITS: Final = DEPLOY / "systemd"
BIN: Final = "/opt/tallystick/.venv/bin/"
COMMON: Final = "tallystick-.service.d/common.conf"
# systemd-analyze says OK up to 4.9; the first services of a distribution have 9.
MAX_EXPOSURE: Final = 2.0


def _read(name: str) -> Mapping[str, list[tuple[str, str]]]:
    """Return the sections of a unit, whose settings may repeat."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for line in (UNITS / name).read_text().splitlines():
        if line.startswith("["):
            sections[line.strip("[]")] = current = []
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            current.append((key, value))
    return sections


def _command(name: str) -> list[str]:
    (command,) = [value for key, value in _read(name)["Service"] if key == "ExecStart"]
    assert command.startswith(BIN)
    return shlex.split(command.removeprefix(BIN))


def _unit(process: str) -> str:
    return f"tallystick-{process}{'@' if process == 'worker' else ''}.service"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The units, with the programs of this environment."""
    folder = tmp_path_factory.mktemp("units")
    shutil.copytree(UNITS, folder, dirs_exist_ok=True)
    for unit in folder.glob("*.service"):
        unit.write_text(unit.read_text().replace(BIN, f"{Path(sys.executable).parent}/"))
    return folder


def test_every_process_of_the_procfile_is_a_unit_of_the_target() -> None:
    assert {name: _command(_unit(name)) for name in PROCESSES} == PROCESSES
    assert _command("tallystick-migrate.service") == MIGRATE
    assert _command("tallystick-backup.service") == BACKUP
    wanted = " ".join(value for key, value in _read("tallystick.target")["Unit"] if key == "Wants")
    started = {re.sub(r"@\d+", "@", name) for name in wanted.split()}
    assert started == {_unit(name) for name in PROCESSES}
    units = {path.name for path in UNITS.glob("*.service")}
    assert units == {*started, "tallystick-migrate.service", "tallystick-backup.service"}


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_waits_for_the_migration_and_is_started_again(process: str) -> None:
    unit = _read(_unit(process))
    settings = dict(unit["Unit"])
    assert settings["PartOf"] == "tallystick.target"
    for key in ("Requires", "After"):
        assert "tallystick-migrate.service" in settings[key].split()
    assert dict(unit["Service"])["Restart"] == "always"


def test_the_migration_runs_once_per_start_of_the_target() -> None:
    unit = _read("tallystick-migrate.service")
    assert dict(unit["Unit"])["PartOf"] == "tallystick.target"
    assert dict(unit["Service"])["RemainAfterExit"] == "yes"


def test_a_database_that_is_away_at_boot_keeps_nothing_down() -> None:
    assert dict(_read(COMMON)["Unit"])["StartLimitIntervalSec"] == "0"
    migration = dict(_read("tallystick-migrate.service")["Service"])
    assert migration["Restart"] == "on-failure"
    # A failed migration ends the command that started it: it isn't tried again in silence.
    ends = {int(status) for status in migration["RestartPreventExitStatus"].split()}
    assert ends == {1, CommandError.exit_code}
    assert UnreachableError.exit_code not in ends
    assert 5 <= int(migration["RestartSec"]) <= 60
    # Otherwise the first failure is the end of every process that waits for the migration.
    assert migration["RestartMode"] == "direct"


def test_every_variable_is_a_setting_that_the_service_accepts(tmp_path: Path) -> None:
    environment = _environment()
    assert environment.keys() <= SETTINGS
    assert int(dict(_read(COMMON)["Service"])["TimeoutStopSec"]) >= STOP_SECONDS
    assert dict(_read("tallystick-web.socket")["Socket"])["ListenStream"].endswith(f":{WEB_PORT}")
    # make-secrets writes each file that the settings name.
    assert run(DEPLOY / "scripts" / "make-secrets", tmp_path, "localhost").returncode == 0
    named = {name: value for name, value in environment.items() if name.endswith("_FILE")}
    moved = {name: str(tmp_path / Path(value).name) for name, value in named.items()}
    config = Config.from_environment({**environment, **moved})
    assert config.database_url.endswith("@localhost/tallystick")
    (credential,) = [value for key, value in _read("tallystick-migrate.service")["Service"]
                     if key == "LoadCredential"]  # fmt: skip
    assert (tmp_path / Path(credential).name).exists()
    folders = dict(_read(COMMON)["Service"])["StateDirectory"].split()
    for name in ("UPLOAD_FOLDER", "OUTBOX_FOLDER", "STORAGE_URL"):
        assert environment[name].removeprefix("file://").removeprefix("/var/lib/") in folders


def _environment() -> dict[str, str]:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string("[settings]\n" + (UNITS / "settings.env").read_text())
    return dict(parser["settings"])


def test_systemd_verifies_every_unit(installed: Path) -> None:
    units = [path for path in installed.iterdir() if path.is_file() and path.suffix != ".env"]
    assert len(units) == len(PROCESSES) + 5
    checked = _analyze(installed, "verify", "--man=no", *units)
    assert checked.returncode == 0, checked.stdout
    # systemd knows it since 254; Debian 13 has 257.
    newer = "Unknown key 'RestartMode'"
    assert [line for line in checked.stdout.splitlines() if newer not in line] == []


@pytest.mark.parametrize("process", [*PROCESSES, "migrate", "backup"])
def test_a_unit_is_exposed_to_little(installed: Path, process: str) -> None:
    unit = installed / _unit(process)
    checked = _analyze(installed, "security", "--offline=yes", "--no-pager", unit)
    (exposure,) = re.findall(r"exposure level for \S+: ([\d.]+)", checked.stdout)
    assert float(exposure) < MAX_EXPOSURE, checked.stdout


def _analyze(units: Path, *command: str | Path):  # type: ignore[no-untyped-def]
    return run(tool("systemd-analyze"), *command, env={"SYSTEMD_UNIT_PATH": f"{units}:"})
