"""The ordinary users that root runs programs as, and what they can reach."""

import os
import pwd
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from service.config import Config
from service.operations.local.embedded.errors import ServersError
from service.operations.local.processes.handle import OrdinaryUser

# A user made for the service, or else one that every system has. Not `nobody`, whom PostgreSQL may
# run as: the service must not be able to change the database's files.
_CANDIDATES: Final = ("tallystick", "www-data", "daemon")
# The parts of the checkout and of its environment that every program needs.
_IMPORT_CHECK: Final = """
from importlib.util import find_spec
for name in ("service.app", "detectors", "worker", "gunicorn", "polars"):
    open(find_spec(name).origin).close()
"""


def choose_user(data_dir: Path, *, allow_root: bool) -> tuple[OrdinaryUser | None, tuple[str, ...]]:
    """Return the user that root runs the programs as, and notices; None is root.

    It is the owner of existing blobs, or else the first candidate of this system. Raises
    `ServersError` if no user can run them, unless root may.
    """
    every = {entry.pw_name: entry for entry in pwd.getpwall()}
    found = [every[name] for name in _CANDIDATES if name in every and every[name].pw_uid != 0]
    blobs = data_dir / "blobs"
    owner = blobs.stat().st_uid if blobs.exists() else 0
    found.sort(key=lambda entry: entry.pw_uid != owner)
    reason = f"there is no user {', '.join(_CANDIDATES[:-1])} or {_CANDIDATES[-1]}"
    if found:
        user = OrdinaryUser(found[0].pw_name, found[0].pw_uid, found[0].pw_gid)
        run = f'exec {shlex.quote(sys.executable)} -P -c "$1"'
        # What the user needs, and how to try it: the data folder, Python, and the programs' code.
        for path, script, argument in (
            (data_dir, 'cd "$1"', data_dir),
            (Path(sys.executable).resolve(), run, ""),
            (Path(__file__).parents[3], run, _IMPORT_CHECK),
        ):
            if not succeeds(user, script, argument):
                reason = f"the user {user.name} can't access {path}"
                break
        else:
            return user, ()
    if not allow_root:
        raise ServersError(
            f"the service must not run as root, and {reason}; start it as an ordinary user, or move"
            " the folder to where that user can access it"
        )
    return None, (f"the service runs as root, because {reason}; see docs/operations.md",)


def own_folders(user: OrdinaryUser, data_dir: Path, config: Config) -> None:
    """Give the folders that the programs write to the user that they run as."""
    storage = urlsplit(config.storage_url)
    written = [Path(unquote(storage.path))] if storage.scheme == "file" else []
    named = (config.metrics_folder, config.outbox_folder, config.upload_folder)
    for folder in (*written, *(data_dir / name for name in named if name)):
        if folder.exists() and not folder.is_relative_to(data_dir):
            if not succeeds(user, 'test -w "$1" && test -x "$1"', folder):
                raise ServersError(f"the user {user.name} can't write to {folder}")
            continue
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == user.user:
            continue
        for path, folders, files in os.walk(folder, topdown=False):  # root filled it earlier
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
