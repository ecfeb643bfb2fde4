"""The users that root runs programs as, and the folders and copies of programs that they can reach.

PostgreSQL refuses to run as root, so root runs it as an ordinary user. If that user can't reach the
data folder, another folder holds the files; if they can't reach the programs, we copy them. The
service's own programs run as a second user, who may use the servers but not touch their files.
"""

import os
import pwd
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from pwd import struct_passwd
from typing import Final

from service.config import Config
from service.core.blobs import local_folder
from service.operations.local.embedded.binaries import Binaries, copy_binaries
from service.operations.local.embedded.errors import ServersError
from service.operations.local.processes.handle import run_as

# A file in the data folder with the path of the folder that holds the servers' files instead.
ELSEWHERE_NAME = "servers-folder"
ELSEWHERE = Path("/var/tmp")  # noqa: S108 - a fresh private folder is made in it
SHORT_SOCKETS = Path("/tmp")  # noqa: S108 - likewise

# macOS allows 103 bytes in a socket's path, Linux 107.
MAX_SOCKET_PATH_BYTES = 103
LONGEST_SOCKET_NAME = ".s.PGSQL.5432"

_SERVERS_USERS: Final = ("postgres", "nobody")
# A user made for the service, or else one that every system has. Not `nobody`, whom PostgreSQL may
# run as: the service must not be able to change the database's files.
_PROGRAMS_USERS: Final = ("tallystick", "www-data", "daemon")
# The parts of the checkout and of its environment that every program needs.
_IMPORT_CHECK: Final = """
from importlib.util import find_spec
for name in ("service.app", "detectors", "worker", "gunicorn", "polars"):
    open(find_spec(name).origin).close()
"""


@dataclass(frozen=True)
class Placement:
    """The users, folders and programs of the servers, and lines to show about odd folders.

    `owner` is the name of the current user; `user` runs the servers and `programs_user` the
    programs that use them, if they are other users.
    """

    owner: str
    folder: Path
    sockets: Path
    binaries: Binaries
    user: struct_passwd | None
    programs_user: struct_passwd | None
    notices: tuple[str, ...]


def place(
    data_dir: Path, binaries: Binaries, programs_user: struct_passwd | None = None
) -> Placement:
    """Choose user, folders and programs for the servers of a data folder."""
    try:
        owner = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise ServersError(
            f"PostgreSQL needs a user name, but the user ID {os.geteuid()} has none"
        ) from None
    user: struct_passwd | None = None
    notices: tuple[str, ...] = ()
    if os.geteuid() != 0:
        folder = make_private(data_dir / "servers", None)
    else:
        user, folder, notices = _place_as_root(data_dir)
        bin_folder = binaries.postgres / "bin"
        programs = (bin_folder / "postgres", bin_folder / "initdb", binaries.valkey)
        if not all(succeeds(user, '"$1" --version', each) for each in programs if each):
            binaries = copy_binaries(binaries, folder)
    # Only the servers' and the programs' user enter the folder of the sockets.
    sockets = folder / "run"
    if len(os.fsencode(sockets / LONGEST_SOCKET_NAME)) > MAX_SOCKET_PATH_BYTES:
        sockets = Path(tempfile.mkdtemp(prefix="tallystick-", dir=SHORT_SOCKETS))
    make_private(sockets, user)
    if user is not None and programs_user is not None:
        folder.chmod(0o711)  # to pass through; each folder inside is private
        os.chown(sockets, user.pw_uid, programs_user.pw_gid, follow_symlinks=False)
    sockets.chmod(0o710 if user is not None and programs_user is not None else 0o700)
    return Placement(owner, folder, sockets, binaries, user, programs_user, notices)


def make_private(folder: Path, user: struct_passwd | None) -> Path:
    """Create a folder that only this user and root can enter."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid, follow_symlinks=False)
    return folder


def _place_as_root(data_dir: Path) -> tuple[struct_passwd, Path, tuple[str, ...]]:
    """Return the servers' user, the folder of their files, and notices."""
    folder, record, notices = data_dir / "servers", data_dir / ELSEWHERE_NAME, list[str]()
    with suppress(OSError):
        recorded = Path(record.read_text().strip())
        # Only root's own; anybody can make a folder in `ELSEWHERE`.
        if recorded.lstat().st_uid == 0 and recorded.is_dir() and not recorded.is_symlink():
            folder = recorded
    users = _list_users(_SERVERS_USERS)
    with suppress(OSError, KeyError):  # SSSD and LDAP find users that they don't list
        users = [pwd.getpwuid((folder / "postgres").stat().st_uid)]
    if not users or users[0].pw_uid == 0:
        raise ServersError("PostgreSQL can't run as root, and there is no user postgres or nobody")
    user = users[0]
    if folder == data_dir / "servers":
        _make_passable(folder, user)
        if succeeds(user, 'cd "$1"', folder):
            return user, folder, ()
        folder.rmdir()
        if record.exists():
            notices.append(f"{record.read_text().strip()} no longer exists; its database is lost")
        folder = Path(tempfile.mkdtemp(prefix="tallystick-", dir=ELSEWHERE))
        record.write_text(f"{folder}\n")
    notices.append(
        f"the servers run as the user {user.pw_name}, who can't access {data_dir}; "
        f"the database is in {folder}"
    )
    _make_passable(folder, user)
    return user, folder, tuple(notices)


def _make_passable(folder: Path, user: struct_passwd) -> None:
    """Create a folder of root that only root and the servers' group can pass through."""
    folder.mkdir(mode=0o710, exist_ok=True)
    os.chown(folder, 0, user.pw_gid)
    folder.chmod(0o710)


def _list_users(names: tuple[str, ...]) -> list[struct_passwd]:
    """Return those of the users that this machine has, in this order, and never root."""
    every = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    return [every[name] for name in names if name in every]


def choose_user(
    data_dir: Path, *, allow_root: bool
) -> tuple[struct_passwd | None, tuple[str, ...]]:
    """Return the user that root runs the programs as, and notices; None is root.

    It is the owner of existing blobs, or else the first candidate of this system. Raises
    `ServersError` if no user can run them, unless root may.
    """
    users = _list_users(_PROGRAMS_USERS)
    blobs = data_dir / "blobs"
    owner = blobs.stat().st_uid if blobs.exists() else 0
    users.sort(key=lambda user: user.pw_uid != owner)
    reason = f"there is no user {', '.join(_PROGRAMS_USERS[:-1])} or {_PROGRAMS_USERS[-1]}"
    for user in users[:1]:
        run = f'exec {shlex.quote(sys.executable)} -P -c "$1"'
        # What the user needs, and how to try it: the data folder, Python, and the programs' code.
        needed: tuple[tuple[Path, str, Path | str], ...] = (
            (data_dir, 'cd "$1"', data_dir),
            (Path(sys.executable).resolve(), run, ""),
            (Path(__file__).parents[4], run, _IMPORT_CHECK),
        )
        closed = next((path for path, how, of in needed if not succeeds(user, how, of)), None)
        if closed is None:
            return user, ()
        reason = f"the user {user.pw_name} can't access {closed}"
    if not allow_root:
        raise ServersError(
            f"the service must not run as root, and {reason}; start it as an ordinary user, or move"
            " the folder to where that user can access it"
        )
    return None, (f"the service runs as root, because {reason}; see docs/operations.md",)


def own_folders(user: struct_passwd, data_dir: Path, config: Config) -> None:
    """Give the folders that the programs write to the user that they run as."""
    blobs = local_folder(config.storage_url)
    named = (config.metrics_folder, config.outbox_folder, config.upload_folder)
    for path in (*((blobs,) if blobs else ()), *(data_dir / name for name in named if name)):
        folder = path.resolve()  # an operator's other disk is not given away through a link
        if folder.exists() and not folder.is_relative_to(data_dir.resolve()):
            if not succeeds(user, 'test -w "$1" && test -x "$1"', folder):
                raise ServersError(f"the user {user.pw_name} can't write to {folder}")
            continue
        path.mkdir(mode=0o700, parents=True, exist_ok=True)  # fails if it links to a missing disk
        if folder.stat().st_uid != user.pw_uid:  # root filled it earlier
            command = ("chown", "-R", "-h", f"{user.pw_uid}:{user.pw_gid}", folder)
            given = subprocess.run(command, check=False)  # noqa: S603 - two numbers and a folder
            if given.returncode != 0:
                raise ServersError(f"can't give {folder} to the user {user.pw_name}")


def succeeds(user: struct_passwd, script: str, argument: Path | str) -> bool:
    """Check by trying whether the user can do it, because file modes aren't enough to know."""
    attempt = subprocess.run(  # noqa: S603 - our own script
        ["/bin/sh", "-c", script, "sh", argument],
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        **run_as(user),
    )
    return attempt.returncode == 0
