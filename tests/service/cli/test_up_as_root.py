"""tallystick up as root: its programs run as an ordinary user, or it refuses.

That a stop ends them is tested by the fixture.
"""

import os
import pwd
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from service.operations.local import placement
from service.operations.local.handle import ServersError
from service.operations.local.placement import choose_user
from service.operations.local.postgres import OWNER_ROLE, ROLE
from service.operations.local.run_state import find_state
from tests.running import Up
from tests.warm import run_warm

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as another user")
DATABASES = {"DATABASE_URL", "MIGRATION_DATABASE_URL", "REDIS_URL"}
SERVERS = {"postgres", "valkey-server"}
CONNECT = """
import psycopg2, sys
host, user = sys.argv[1:]
connection = psycopg2.connect(host=host, user=user, dbname="tallystick")
cursor = connection.cursor()
cursor.execute("SELECT current_user")
print(cursor.fetchone()[0])
"""


def test_no_program_runs_as_root_and_none_as_the_servers_user(up: Up) -> None:
    assert up.base_url, up.process.stderr and up.process.stderr.read()
    users: dict[str, set[int]] = {}
    for process in up.processes():
        kind = "server" if process.name() in SERVERS else "program"
        if "local.supervisor" not in " ".join(process.cmdline()):
            users.setdefault(kind, set()).add(process.uids().effective)
    assert users["program"].isdisjoint({0, *users["server"]})
    assert len(users["program"]) == 1


def test_files_of_an_earlier_release_belong_to_the_user_now(up: Up) -> None:
    user = up.find("sweeper")[0].uids().effective
    for path in ("blobs", "blobs/raw", "blobs/raw/old.jsonl", "outbox", "metrics"):
        assert (up.folder / path).stat().st_uid == user, path
    for secret in ("secret_key", "state.json", "log"):
        found = (up.folder / secret).stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode) & 0o077) == (0, 0), secret


@pytest.mark.parametrize(("role", "is_admitted"), [(ROLE, True), (OWNER_ROLE, False)])
def test_the_user_is_admitted_as_the_services_role_only(
    up: Up, open_python: dict[str, str], role: str, is_admitted: bool
) -> None:
    state = find_state(up.folder)
    assert state is not None
    program, sockets = up.find("sweeper")[0], up.folder / "servers" / "run"
    ran = subprocess.run(
        [open_python["PYTHON"], "-c", CONNECT, str(sockets), role],
        user=program.uids().effective,
        group=program.gids().effective,
        extra_groups=[],
        env={**open_python, "HOME": str(up.folder)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout.strip() == role) == is_admitted
    if not is_admitted:
        assert "authentication failed" in ran.stderr
    secrets = " ".join(state.values())
    assert OWNER_ROLE in secrets
    assert "MIGRATION_DATABASE_URL" not in program.environ()


def test_another_user_reaches_neither_the_sockets_nor_the_files(up: Up) -> None:
    for folder in ("servers/run", "servers/postgres", "servers/valkey", "blobs", "log"):
        tried = subprocess.run(
            ["ls", str(up.folder / folder)],
            user=12_345,
            group=12_345,
            extra_groups=[],
            check=False,
        )
        assert tried.returncode != 0, folder


@pytest.fixture
def closed_home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


def test_where_no_ordinary_user_can_run_it_up_refuses_in_one_line_if_asked_to(
    closed_home: Path,
) -> None:
    refused = run_warm(
        ("service", "up", "--refuse-root", "--data", str(closed_home / "var")),
        {"PATH": os.environ["PATH"]},
    )
    assert refused.returncode == 2
    assert refused.stderr.startswith("Error: the service must not run as root, and the user ")
    assert "start it as an ordinary user" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not list((closed_home / "var").glob("servers*"))


def test_root_is_used_with_a_notice_unless_it_is_refused(closed_home: Path) -> None:
    closed_home.joinpath("var").mkdir()
    with pytest.raises(ServersError, match="must not run as root"):
        choose_user(closed_home / "var", [], allow_root=False)
    notices = list[str]()
    assert choose_user(closed_home / "var", notices, allow_root=True) is None
    assert str(closed_home / "var") in notices[0]


def test_the_owner_of_existing_blobs_runs_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although another user comes first: the blobs may be on a disk that isn't given away."""
    monkeypatch.setattr(placement, "succeeds", lambda *_: True)
    (tmp_path / "blobs").mkdir()
    os.chown(tmp_path / "blobs", pwd.getpwnam("daemon").pw_uid, -1)
    user = choose_user(tmp_path, [], allow_root=False)
    assert user is not None
    assert user.pw_name == "daemon"


def test_a_storage_folder_that_the_user_cannot_write_to_is_reported(
    up: Up, servers_folder: Path, open_python: dict[str, str]
) -> None:
    """An operator's own folder is never given away."""
    state = find_state(up.folder)
    assert state is not None
    databases = {name: url for name, url in state.items() if name in DATABASES}
    mine = Path(tempfile.mkdtemp(dir=servers_folder))
    mine.chmod(0o755)
    refused = subprocess.run(
        [open_python["PYTHON"], "-m", "service", "up", "--data", str(servers_folder / "mine")],
        env={**open_python, **databases, "PATH": os.environ["PATH"], "STORAGE_URL": mine.as_uri()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert f"can't write to {mine}" in refused.stderr
    assert mine.stat().st_uid == 0
