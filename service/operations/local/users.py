"""The ordinary users that root runs programs as, and what they can reach."""

import os
import pwd
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from service.config import Config
from service.operations.local.embedded.errors import ServersError

# A user made for the service, or else one that every system has. Not `nobody`, whom PostgreSQL may
# run as: the service must not be able to change the database's files.
_CANDIDATES: Final = ("tallystick", "www-data", "daemon")
# The parts of the checkout and of its environment that every program needs.
_IMPORT_CHECK: Final = """
from importlib.util import find_spec
for name in ("service.app", "detectors", "worker", "gunicorn", "polars"):
    open(find_spec(name).origin).close()
"""


@dataclass(frozen=True)
class OrdinaryUser:
    """A user other than root."""

    name: str
    user: int
    group: int


def choose_user(data_dir: Path, *, allow_root: bool) -> tuple[OrdinaryUser | None, tuple[str, ...]]:
    """Return the user that root runs the programs as, and notices; None is root.

    Raises `ServersError` if no user can run them, unless root may.
    """
    user = _find_user(data_dir)
    obstacle = _find_obstacle(user, data_dir) if user else None
    if user is not None and obstacle is None:
        return user, ()
    reason = f"there is no user {', '.join(_CANDIDATES[:-1])} or {_CANDIDATES[-1]}"
    if user is not None:
        reason = f"the user {user.name} can't access {obstacle}"
    if not allow_root:
        raise ServersError(
            f"the service must not run as root, and {reason}; start it as an ordinary user, or move"
            " the folder to where that user can access it"
        )
    return None, (f"the service runs as root, because {reason}; see docs/operations.md",)


def own_folders(user: OrdinaryUser, data_dir: Path, config: Config) -> None:
    """Give the folders that the programs write to the user that they run as."""
    for folder in _written_folders(data_dir, config):
        if folder.is_relative_to(data_dir) or not folder.exists():
            _own(folder, user)
        elif not succeeds(user, 'test -w "$1" && test -x "$1"', folder):
            raise ServersError(f"the user {user.name} can't write to {folder}")


def _find_user(data_dir: Path) -> OrdinaryUser | None:
    """Return the owner of existing blobs, or else the first candidate of this system."""
    entries = {entry.pw_name: entry for entry in pwd.getpwall()}
    found = [entries[name] for name in _CANDIDATES if name in entries]
    try:
        owner = (data_dir / "blobs").stat().st_uid
    except OSError:
        owner = 0
    for entry in (*(entry for entry in found if entry.pw_uid == owner), *found):
        if entry.pw_uid != 0:
            return OrdinaryUser(entry.pw_name, entry.pw_uid, entry.pw_gid)
    return None


def _find_obstacle(user: OrdinaryUser, data_dir: Path) -> Path | None:
    """Return what the user can't reach but needs: the data folder or the programs' code."""
    if not succeeds(user, 'cd "$1"', data_dir):
        return data_dir
    python = shlex.quote(sys.executable)
    if not succeeds(user, f'exec {python} -P -c "$1"', ""):
        return Path(sys.executable).resolve()
    if not succeeds(user, f'exec {python} -P -c "$1"', _IMPORT_CHECK):
        return Path(__file__).parents[3]
    return None


def _written_folders(data_dir: Path, config: Config) -> Iterator[Path]:
    storage = urlsplit(config.storage_url)
    if storage.scheme == "file":
        yield Path(unquote(storage.path))
    for folder in (config.metrics_folder, config.outbox_folder, config.upload_folder):
        if folder:
            yield data_dir / folder


def _own(folder: Path, user: OrdinaryUser) -> None:
    """Create a private folder of the user; one that root filled earlier becomes theirs."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid == user.user:
        return
    for path, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            os.chown(Path(path) / name, user.user, user.group, follow_symlinks=False)
    os.chown(folder, user.user, user.group)


def succeeds(user: OrdinaryUser, script: str, argument: Path | str) -> bool:
    """Check by trying whether the user can do it, because file modes aren't enough to know."""
    attempt = subprocess.run(  # noqa: S603 - our own script
        ["/bin/sh", "-c", script, "sh", argument],
        user=user.user,
        group=user.group,
        extra_groups=[],
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return attempt.returncode == 0
