"""Choose the user that the servers run as, and the folder of their files.

PostgreSQL refuses to run as root, so root runs it as an ordinary user. If that user can't reach the
data folder, another folder holds the files; if they can't reach the programs, we copy them. The
service's own programs run as a second user, who may use the servers but not touch their files.
"""

import os
import pwd
import tempfile
from dataclasses import dataclass
from pathlib import Path

from service.operations.local.embedded.binaries import Binaries, copy_binaries
from service.operations.local.embedded.errors import ServersError
from service.operations.local.processes.handle import OrdinaryUser
from service.operations.local.users import succeeds

# A file in the data folder with the path of the folder that holds the servers' files instead.
ELSEWHERE_NAME = "servers-folder"
ELSEWHERE = Path("/var/tmp")  # noqa: S108 - a fresh private folder is made in it
SHORT_SOCKETS = Path("/tmp")  # noqa: S108 - likewise

# macOS allows 103 bytes in a socket's path, Linux 107.
MAX_SOCKET_PATH_BYTES = 103
LONGEST_SOCKET_NAME = ".s.PGSQL.5432"


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
    user: OrdinaryUser | None
    programs_user: OrdinaryUser | None
    notices: tuple[str, ...]

    @property
    def user_id(self) -> int:
        return self.user.user if self.user else os.geteuid()


def place(
    data_dir: Path, binaries: Binaries, programs_user: OrdinaryUser | None = None
) -> Placement:
    """Choose user, folders and programs for the servers of a data folder."""
    try:
        owner = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise ServersError(
            f"PostgreSQL needs a user name, but the user ID {os.geteuid()} has none"
        ) from None
    user: OrdinaryUser | None = None
    notices: tuple[str, ...] = ()
    if os.geteuid() != 0:
        folder = make_private(data_dir / "servers", None)
    else:
        user = _find_user(_recorded_folder(data_dir) or data_dir / "servers")
        folder, notices = _place_for(user, data_dir)
        programs = (binaries.postgres / "bin/postgres", binaries.postgres / "bin/initdb")
        if not all(succeeds(user, '"$1" --version', each) for each in (*programs, binaries.valkey)):
            binaries = copy_binaries(binaries, folder)
    # Only the servers' and the programs' user enter the folder of the sockets.
    sockets = folder / "run"
    if len(os.fsencode(sockets / LONGEST_SOCKET_NAME)) > MAX_SOCKET_PATH_BYTES:
        sockets = Path(tempfile.mkdtemp(prefix="tallystick-", dir=SHORT_SOCKETS))
    make_private(sockets, user)
    if user is not None and programs_user is not None:
        folder.chmod(0o711)  # to pass through; each folder inside is private
        os.chown(sockets, user.user, programs_user.group, follow_symlinks=False)
    sockets.chmod(0o710 if user is not None and programs_user is not None else 0o700)
    return Placement(owner, folder, sockets, binaries, user, programs_user, notices)


def make_private(folder: Path, user: OrdinaryUser | None) -> Path:
    """Create a folder that only this user and root can enter."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if user is not None:
        os.chown(folder, user.user, user.group, follow_symlinks=False)
    return folder


def _find_user(existing: Path) -> OrdinaryUser:
    """Return the owner of existing data, or else an ordinary user that every machine has."""
    try:
        entries = [pwd.getpwuid((existing / "postgres").stat().st_uid)]
    except (OSError, KeyError):
        every = {entry.pw_name: entry for entry in pwd.getpwall()}
        entries = [every[name] for name in ("postgres", "nobody") if name in every]
    for entry in entries:
        if entry.pw_uid != 0:
            return OrdinaryUser(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise ServersError("PostgreSQL can't run as root, and there is no user postgres or nobody")


def _place_for(user: OrdinaryUser, data_dir: Path) -> tuple[Path, tuple[str, ...]]:
    recorded, notices = _recorded_folder(data_dir), list[str]()
    if recorded is None:
        folder = _make_passable(data_dir / "servers", user)
        if succeeds(user, 'cd "$1"', folder):
            return folder, ()
        folder.rmdir()
        record = data_dir / ELSEWHERE_NAME
        if record.exists():
            notices.append(f"{record.read_text().strip()} no longer exists; its database is lost")
        recorded = Path(tempfile.mkdtemp(prefix="tallystick-", dir=ELSEWHERE))
        record.write_text(f"{recorded}\n")
    notices.append(
        f"the servers run as the user {user.name}, who can't access {data_dir}; "
        f"the database is in {recorded}"
    )
    return _make_passable(recorded, user), tuple(notices)


def _recorded_folder(data_dir: Path) -> Path | None:
    """Return the folder chosen earlier, if it exists and belongs to root."""
    try:
        folder = Path((data_dir / ELSEWHERE_NAME).read_text().strip())
        owner = folder.lstat().st_uid
    except OSError:
        return None
    return folder if owner == 0 and folder.is_dir() and not folder.is_symlink() else None


def _make_passable(folder: Path, user: OrdinaryUser) -> Path:
    """Create a folder of root that only root and the servers' group can pass through."""
    folder.mkdir(mode=0o710, exist_ok=True)
    os.chown(folder, 0, user.group)
    folder.chmod(0o710)
    return folder
