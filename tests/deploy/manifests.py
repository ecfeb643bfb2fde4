"""What the files in `deploy/` have to agree with: the Procfile, the settings, ports and paths."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from service.config import SECRETS, Config
from service.web.pages.public import health

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
# What runs besides the Procfile's processes: the release step, and what a timer starts.
MIGRATE: Final = ["tallystick", "migrate"]
BACKUP: Final = ["tallystick", "backup", "create"]
PROCESSES: Final[Mapping[str, list[str]]] = {
    name: shlex.split(command)
    for name, command in (
        line.split(":", 1) for line in (ROOT / "Procfile").read_text().splitlines()
    )
}
_NAMES: Final = {setting.name.upper() for setting in fields(Config)}
# gunicorn and Python read these themselves.
SETTINGS: Final = (
    _NAMES | {f"{name}_FILE" for name in SECRETS} | {"PORT", "PYTHONUNBUFFERED", "PATH"}
)
# The web process's port is gunicorn's default with an address, and PORT's usual value.
WEB_PORT: Final = 8000
DEFAULTS: Final[Mapping[str, Any]] = {setting.name: setting.default for setting in fields(Config)}
# What a manager of processes must wait for at least, with a DRAIN_SECONDS of up to a minute.
STOP_SECONDS: Final[int] = DEFAULTS["stop_seconds"] + 60 + 5
METRICS_PORT: Final[int] = DEFAULTS["metrics_port"]
HEALTH_PATHS: Final = set(
    re.findall(r'blueprint\.route\("(/\w+)"', Path(health.__file__).read_text())
)


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def find_errors(document: Any, schema: Any) -> list[str]:
    """Return what a JSON schema says against a document, with the place in it."""
    found = jsonschema_rs.validator_for(schema).iter_errors(document)
    return [f"{'.'.join(map(str, error.instance_path))}: {error.message}" for error in found]


def find_schema(name: str) -> Any:
    """Return a published schema as check_jsonschema has it, which takes long to import."""
    found = find_spec("check_jsonschema")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "builtin_schemas" / "vendor"
    return json.loads((folder / f"{name}.json").read_text())


def tool(name: str) -> str:
    """Return the path of a program that `make` or `.ci/run` installs; skip the test without it."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip(f"no {name} here: run `make .venv/.tools-unpacked`, or install Debian's")
    return found


def run(*command: str | Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a check to its end; what it says is on the returned `stdout`."""
    every = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    return subprocess.run([str(part) for part in command], check=False, **every)
