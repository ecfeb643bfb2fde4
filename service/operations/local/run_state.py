"""Files that a running `tallystick up` writes to its data folder, so other commands can reach it.

The keys are created once and survive restarts, so that report links stay valid. Only the owner can
read these files.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from service.core.durable_files import write_private
from service.operations.local.embedded.ownership import find_owner

SECRET_KEY_NAME = "secret_key"  # noqa: S105 - a file's name
ENCRYPTION_KEY_NAME = "encryption_key"
FALLBACKS_SUFFIX = "_fallbacks"
STATE_NAME = "state.json"


def load_key(data_dir: Path, name: str) -> str:
    """Return a key of the folder, created on first use."""
    path = data_dir / name
    if not path.exists():
        write_private(path, f"{new_key()}\n".encode())
    return path.read_text().strip()


def load_fallbacks(data_dir: Path, name: str) -> str:
    """Return the other keys that are accepted, while one replaces another."""
    path = data_dir / f"{name}{FALLBACKS_SUFFIX}"
    return " ".join(path.read_text().split()) if path.exists() else ""


def new_key() -> str:
    return secrets.token_urlsafe(48)


def save_state(data_dir: Path, settings: Mapping[str, str]) -> None:
    """Save the settings of this process."""
    write_private(data_dir / STATE_NAME, msgspec.json.encode(settings))


def find_state(data_dir: Path) -> dict[str, str] | None:
    """Return the settings of the `up` running on the folder, if it is ready."""
    if find_owner(data_dir) is None:
        return None
    try:
        return msgspec.json.decode((data_dir / STATE_NAME).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return None


def clear_state(data_dir: Path) -> None:
    (data_dir / STATE_NAME).unlink(missing_ok=True)
