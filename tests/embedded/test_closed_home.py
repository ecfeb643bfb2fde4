"""Run as root with a data folder, or programs, that the servers' user can't access."""

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.config import Config
from service.operations.local import placement
from service.operations.local.handle import ServersError
from service.operations.local.placement import copy_binaries, find_binaries, own_folders, place
from service.operations.local.servers import EmbeddedServers
from tests.embedded.test_servers import read_rows, read_version, write_row

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")


@pytest.fixture
def closed_home(tmp_path: Path) -> Iterator[Path]:
    """A folder that only root can enter; what is kept elsewhere for it is removed again."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    yield home
    for record in home.rglob(placement.ELSEWHERE_NAME):
        shutil.rmtree(record.read_text().strip())


def test_the_data_is_kept_in_another_private_folder_that_is_named(closed_home: Path) -> None:
    """The next start finds it again, even though the data folder was moved."""
    with EmbeddedServers(closed_home / "var") as servers:
        write_row(servers.database_url, "a")
        elsewhere = Path((closed_home / "var" / placement.ELSEWHERE_NAME).read_text().strip())
        assert str(elsewhere) in servers.notices[0]
        assert elsewhere.parent == placement.ELSEWHERE
        assert (elsewhere.stat().st_uid, stat.S_IMODE(elsewhere.stat().st_mode)) == (0, 0o710)
        assert stat.S_IMODE((elsewhere / "postgres").stat().st_mode) == 0o700
    (closed_home / "var").rename(closed_home / "moved")
    with EmbeddedServers(closed_home / "moved") as servers:
        assert read_rows(servers.database_url) == ["a"]
        assert len(servers.notices) == 1


def test_unreachable_programs_are_copied(
    closed_home: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_binaries()
    assert copy_binaries(found._replace(valkey=None), closed_home).valkey is None
    closed = copy_binaries(found, closed_home)  # Valkey was installed later
    for path in closed_home.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700)
    monkeypatch.setattr("service.operations.local.servers.find_binaries", lambda **_: closed)
    with EmbeddedServers(data_folder) as servers:
        assert read_version(servers.database_url)
        assert servers.notices == []


def test_a_missing_folder_is_reported(closed_home: Path) -> None:
    (closed_home / "var").mkdir()
    notices = list[str]()
    gone = place(closed_home / "var", find_binaries(), []).folder
    shutil.rmtree(gone)
    placed = place(closed_home / "var", find_binaries(), notices)
    assert notices[0] == f"{gone} no longer exists; its database is lost"
    assert placed.folder != gone
    assert placed.folder.is_dir()


def test_a_database_in_a_folder_that_was_closed_since_is_not_replaced(closed_home: Path) -> None:
    database = closed_home / "var/servers/postgres"
    database.mkdir(parents=True)
    os.chown(database, 65534, 65534)
    with pytest.raises(OSError, match="not empty"):
        place(closed_home / "var", find_binaries(), [])


def test_a_folder_of_somebody_else_is_not_trusted(closed_home: Path) -> None:
    (closed_home / "var").mkdir()
    planted = closed_home / "planted"
    planted.mkdir()
    os.chown(planted, 65534, 65534)
    (closed_home / "var" / placement.ELSEWHERE_NAME).write_text(f"{planted}\n")
    assert place(closed_home / "var", find_binaries(), []).folder != planted


def test_an_owner_that_the_system_finds_but_does_not_list_keeps_the_database(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with SSSD or LDAP."""
    monkeypatch.setattr(pwd, "getpwall", list)
    user = place(data_folder, find_binaries(), []).user
    assert user is not None
    assert user.pw_uid == (data_folder / "servers/postgres").stat().st_uid


def make_config(folder: Path) -> Config:
    return Config(
        secret_key="a secret key for tests, 32 or longer",
        database_url="postgresql://",
        redis_url="redis://",
        storage_url=folder.as_uri(),
    )


def test_a_link_to_another_disk_is_not_followed_and_the_user_must_be_able_to_write(
    servers_folder: Path,
) -> None:
    user, folder = pwd.getpwnam("nobody"), Path(tempfile.mkdtemp(dir=servers_folder))
    data, disk = folder / "data", folder / "disk"
    data.mkdir()
    (disk / "raw").mkdir(parents=True)
    folder.chmod(0o711)
    disk.chmod(0o700)
    (data / "blobs").symlink_to(disk)
    with pytest.raises(ServersError, match=f"^the user nobody can't write to {disk}$"):
        own_folders(user, data, make_config(data / "blobs"))
    assert disk.stat().st_uid == (disk / "raw").stat().st_uid == 0
    os.chown(disk, user.pw_uid, user.pw_gid)
    own_folders(user, data, make_config(data / "blobs"))
    assert (disk / "raw").stat().st_uid == 0
    disk.rename(folder / "unmounted")
    with pytest.raises(FileExistsError):
        own_folders(user, data, make_config(data / "blobs"))
    assert not disk.exists()


def test_a_folder_whose_owner_cannot_be_changed_is_named() -> None:
    data = Path("/proc/self").resolve()
    with pytest.raises(ServersError, match=f"^can't give {data}/task to the user nobody$"):
        own_folders(pwd.getpwnam("nobody"), data, make_config(data / "task"))
