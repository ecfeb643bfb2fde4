"""Runs `tallystick watch` at sign-in: a systemd user unit, or a launchd agent on macOS."""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

NAME: Final = "tallystick-watch"
_LABEL: Final = "com.tallystick.watch"
DSN: Final = "TALLYSTICK_DSN"
# Where the agents' folders and the ledger are, which the service manager doesn't know.
_FOLDERS: Final = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCODE_DATA_DIR"),
    *("CLINE_DIR", "CLINE_DATA_DIR", "CLINE_SESSION_DATA_DIR"),
    *("COPILOT_OTEL_FILE_EXPORTER_PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)

_UNIT: Final = """[Unit]
Description=Tallystick: usage of coding agents
Documentation=man:systemd.unit(5)

[Service]
ExecStart={command}
EnvironmentFile=-{environment}
Restart=on-failure
RestartSec=30
Nice=10
MemoryMax=256M

[Install]
WantedBy=default.target
"""


class UnitError(Exception):
    """The unit is written, or removed, but the system's manager didn't take it."""


def unit_path(env: Mapping[str, str], home: Path, platform: str = sys.platform) -> Path:
    if platform == "darwin":
        return home / "Library" / "LaunchAgents" / f"{_LABEL}.plist"
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    return config / "systemd" / "user" / f"{NAME}.service"


def environment_path(env: Mapping[str, str], home: Path) -> Path:
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "tallystick" / "watch.env"


def install(
    arguments: Sequence[str], dsn: str, env: Mapping[str, str], home: Path,
    platform: str = sys.platform,
) -> Path:  # fmt: skip
    """Write the unit, with the key in a file that only this user can read, and start it."""
    path = unit_path(env, home, platform)
    path.parent.mkdir(parents=True, exist_ok=True)
    variables = {name: env[name] for name in _FOLDERS if env.get(name)}
    variables |= {DSN: dsn} if dsn else {}
    command = [sys.executable, "-m", "detectors", "watch", *arguments]
    if platform == "darwin":
        agent = {
            "Label": _LABEL, "ProgramArguments": command, "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False}, "ProcessType": "Background",
            "EnvironmentVariables": variables,
        }  # fmt: skip
        _write_private(path, plistlib.dumps(agent))
        _call(["launchctl", "unload", str(path)], must=False)
        _call(["launchctl", "load", "-w", str(path)])
        return path
    settings = environment_path(env, home)
    settings.parent.mkdir(parents=True, exist_ok=True)
    lines = ""
    for name, value in variables.items():  # quoted as systemd reads them
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        lines += f'{name}="{escaped}"\n'
    _write_private(settings, lines.encode())
    quoted = " ".join(_quoted(part) for part in command)
    path.write_text(_UNIT.format(command=quoted, environment=str(settings).replace("%", "%%")))
    _call(["systemctl", "--user", "daemon-reload"])
    _call(["systemctl", "--user", "enable", f"{NAME}.service"])
    _call(["systemctl", "--user", "restart", f"{NAME}.service"])
    return path


def uninstall(env: Mapping[str, str], home: Path, platform: str = sys.platform) -> bool:
    """Stop and remove the unit and its key; return whether there was one."""
    path, settings = unit_path(env, home, platform), environment_path(env, home)
    existed = path.exists()
    if existed and platform == "darwin":
        _call(["launchctl", "unload", "-w", str(path)], must=False)
    elif existed:
        _call(["systemctl", "--user", "disable", "--now", f"{NAME}.service"], must=False)
    path.unlink(missing_ok=True)
    settings.unlink(missing_ok=True)
    if existed and platform != "darwin":
        _call(["systemctl", "--user", "daemon-reload"], must=False)
    return existed


def _quoted(part: str) -> str:
    """Quote a part of a command as systemd reads it."""
    escaped = part.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return escaped if escaped.replace("/", "").replace("-", "").isalnum() else f'"{escaped}"'


def _write_private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _call(command: Sequence[str], *, must: bool = True) -> None:
    program = shutil.which(command[0])
    said = f"{command[0]} not found"
    if program is not None:
        done = subprocess.run(  # noqa: S603
            [program, *command[1:]], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[0]
    if must:
        raise UnitError(f"{' '.join(command)}: {said}")
