"""What a running `tallystick up` leaves in its data folder for other commands to reach it.

The secrets are made once and outlive restarts, so that report links stay valid. Every file here is
readable by its owner alone.
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from service.operations.local.embedded import find_owner

SECRET_KEY_NAME = "secret_key"  # noqa: S105 - a file's name
STATE_NAME = "state.json"


def load_secret_key(data_dir: Path) -> str:
    """The folder's secret, made at first use."""
    path = data_dir / SECRET_KEY_NAME
    if not path.exists():
        _write_private(path, f"{secrets.token_urlsafe(48)}\n".encode())
    return path.read_text().strip()


def save_state(data_dir: Path, settings: Mapping[str, str]) -> None:
    """Note the settings that this process runs with."""
    _write_private(data_dir / STATE_NAME, msgspec.json.encode(settings))


def find_state(data_dir: Path) -> dict[str, str] | None:
    """The settings of the `up` that runs on the folder, if one does and is ready."""
    if find_owner(data_dir) is None:
        return None
    try:
        return msgspec.json.decode((data_dir / STATE_NAME).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return None


def clear_state(data_dir: Path) -> None:
    (data_dir / STATE_NAME).unlink(missing_ok=True)


def _write_private(path: Path, content: bytes) -> None:
    """Write the file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
