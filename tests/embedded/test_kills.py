"""Check what remains after SIGKILL of the owner, its supervisor, the servers, or all of them."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import psutil
import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from service.operations.local import supervisor as supervising
from service.operations.local.handle import Program
from service.operations.local.servers import EmbeddedServers
from tests.databases import as_owner
from tests.embedded.processes import is_gone, start_owner, wait_until
from tests.embedded.test_servers import read_rows, write_row
from tests.worker.support.promises import Note, at_a_fiftieth, at_a_quarter, sampled, scaled

READY_SECONDS: Final = 15.0


@pytest.mark.stress
def test_the_servers_end_with_a_killed_owner(data_folder: Path) -> None:
    """By default, the next start waits for their end: the test below."""
    owner = start_owner(data_folder)
    owner.kill()
    everyone = [owner.supervisor, *owner.pids.values()]
    assert wait_until(lambda: all(map(is_gone, everyone)))


@at_a_quarter
def test_the_next_start_waits_for_the_servers_of_a_killed_owner(
    data_folder: Path, share: float
) -> None:
    values = ["a", "b", "c"][: scaled(3, share)]
    for value in values:
        owner = start_owner(data_folder)
        write_row(owner.database_url, value)
        owner.kill()
    with EmbeddedServers(data_folder) as servers:
        assert read_rows(servers.database_url) == values


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux signals children when their parent dies"
)
def test_the_servers_end_with_a_killed_supervisor(data_folder: Path) -> None:
    owner = start_owner(data_folder)
    os.kill(owner.supervisor, signal.SIGKILL)
    assert wait_until(lambda: all(map(is_gone, owner.pids.values())))
    owner.kill()


def test_killed_servers_come_back_with_every_commit_while_a_session_is_still_busy(
    private_servers: EmbeddedServers,
) -> None:
    url = private_servers.database_url
    write_row(url, "a")
    busy = threading.Thread(target=count_for_long, args=(url,))
    busy.start()
    assert wait_until(lambda: count_busy_sessions(url) == 1)
    killed = {name: run.pid for name, run in private_servers.supervisor.programs().items()}
    for pid in killed.values():
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def all_are_new() -> bool:
        running = private_servers.supervisor.programs()
        return all(running[name].pid not in (None, pid) for name, pid in killed.items())

    assert wait_until(all_are_new)
    assert wait_until(lambda: can_connect(url))
    busy.join()
    assert read_rows(url) == ["a"]


@at_a_fiftieth
def test_postgres_comes_back_after_the_kill_of_any_child_also_while_it_recovers(
    private_servers: EmbeddedServers, share: float, note: Note
) -> None:
    """PostgreSQL's own restart after a crash stayed down for good in 2 of 17 tries."""
    url, tries, rng = private_servers.database_url, scaled(50, share), random.Random(17)
    stop, lost = threading.Event(), 0
    write_row(url, "kept")
    writer = threading.Thread(target=write_until, args=(url, stop))
    writer.start()
    try:
        for _ in range(tries):
            kill_children(private_servers, rng)
            lost += not wait_until(lambda: can_connect(url), READY_SECONDS)
    finally:
        stop.set()
        writer.join()
    note("50 embedded PostgreSQL comes back in 15 s", tries, lost)
    assert "kept" in read_rows(url)


@pytest.mark.stress
@pytest.mark.parametrize("name", ["postgres", "valkey"])
def test_a_server_that_hangs_is_restarted(
    private_servers: EmbeddedServers, name: str, note: Note
) -> None:
    """By default `test_probing.py` shows when a program is given up."""
    pid = private_servers.supervisor.programs()[name].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    came_back = wait_until(
        lambda: private_servers.supervisor.programs()[name].pid not in (None, pid), 60
    )
    note(f"50 embedded {name} that hangs is restarted", 1, not came_back)
    assert wait_until(lambda: can_connect(private_servers.database_url))
    # It has a process before it listens.
    patient = Retry(ConstantBackoff(0.1), retries=100)
    with redis.Redis.from_url(private_servers.redis_url, retry=patient) as client:
        assert client.ping()


@pytest.mark.stress
def test_a_stale_pid_file_with_a_reused_process_id_harms_neither(data_folder: Path) -> None:
    """By default, PostgreSQL alone finds its file with the ID of another: the test below."""
    owner = start_owner(data_folder)
    user = psutil.Process(owner.pids["postgres"]).uids().real
    sleeper = subprocess.Popen(["sleep", "600"], user=user)
    write_row(owner.database_url, "a")
    # If it ended first, PostgreSQL would have time to end as well and to remove its file.
    os.kill(owner.supervisor, signal.SIGSTOP)
    for pid in (*owner.pids.values(), owner.supervisor):
        os.kill(pid, signal.SIGKILL)
    owner.kill()
    assert wait_until(lambda: all(map(is_gone, owner.pids.values())))
    for name in ("postgres/postmaster.pid", "run/.s.PGSQL.5432.lock"):
        stale_file = data_folder / "servers" / name
        lines = stale_file.read_text().splitlines(keepends=True)
        stale_file.write_text("".join([f"{sleeper.pid}\n", *lines[1:]]))
    (data_folder / "lock").write_text(f"{sleeper.pid} 12345.0\n")
    with EmbeddedServers(data_folder) as servers:
        assert read_rows(servers.database_url) == ["a"]
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


@pytest.mark.parametrize("is_reused", sampled([True, False], 2, ["reused ID", "empty file"]))
def test_postgres_comes_back_whatever_a_crash_left_in_its_pid_file(
    private_servers: EmbeddedServers, is_reused: bool
) -> None:
    """Its supervisor lives, and stops here only until the file is as a crash could leave it."""
    write_row(private_servers.database_url, "a")
    supervisor, pid = (
        private_servers.supervisor,
        private_servers.supervisor.programs()["postgres"].pid,
    )
    assert pid is not None
    user = psutil.Process(pid).uids().real
    sleeper = subprocess.Popen(["sleep", "600"], user=user)
    os.kill(supervisor.pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: is_gone(pid))
    for name in ("postgres/postmaster.pid", "run/.s.PGSQL.5432.lock"):
        pid_file = private_servers.data_dir / "servers" / name
        lines = [f"{sleeper.pid}\n", *pid_file.read_text().splitlines(keepends=True)[1:]]
        pid_file.write_text("".join(lines if is_reused else ()))
    os.kill(supervisor.pid, signal.SIGCONT)
    assert wait_until(lambda: can_connect(private_servers.database_url), READY_SECONDS)
    assert read_rows(private_servers.database_url) == ["a"]
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


def test_a_program_that_cannot_be_started_again_is_tried_ever_more_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, folder = [0.0], tmp_path / "work"
    monkeypatch.setattr(supervising, "time", SimpleNamespace(monotonic=lambda: now[0]))
    folder.mkdir()
    child = supervising.Child(
        Program(name="one", command=("/bin/true",), folder=str(folder), environment={}), tmp_path
    )
    child.start()
    assert child.process is not None
    child.process.wait()
    folder.rmdir()
    now[0] = 100.0  # it ran for long
    events = []
    for _ in range(4):
        events.append(str(child.check())[-8:])
        now[0] += 10.0
    assert events == ["in 0.1 s", "in 0.2 s", "in 0.4 s", "in 0.8 s"]


def test_servers_that_outlived_their_supervisor_are_stopped_by_the_next_start(
    data_folder: Path,
) -> None:
    """As on a system where the kernel does not end them."""
    with EmbeddedServers(data_folder) as servers:
        write_row(servers.database_url, "a")
        commands = [
            psutil.Process(run.pid).cmdline()
            for run in servers.supervisor.programs().values()
            if run.pid is not None
        ]
        postgres = psutil.Process(servers.supervisor.programs()["postgres"].pid)
        user, group = postgres.uids().real, postgres.gids().real
    orphans = [
        subprocess.Popen(command, user=user, group=group, stderr=subprocess.DEVNULL)
        for command in commands
    ]
    assert wait_until(lambda: (data_folder / "servers/postgres/postmaster.pid").exists())
    reapers = [threading.Thread(target=orphan.wait) for orphan in orphans]
    for reaper in reapers:
        reaper.start()
    with EmbeddedServers(data_folder) as servers:
        assert read_rows(servers.database_url) == ["a"]
        assert all(orphan.poll() is not None for orphan in orphans)
    for reaper in reapers:
        reaper.join()


def kill_children(servers: EmbeddedServers, rng: random.Random) -> None:
    """Kill some children of the postmaster: of the running one, and of one that recovers."""
    for pause in (0.0, 0.02, 0.1, 0.3, 0.6)[: rng.randint(2, 5)]:
        time.sleep(pause)
        pid = servers.supervisor.programs()["postgres"].pid
        with contextlib.suppress(psutil.Error, IndexError):
            rng.choice(psutil.Process(pid).children() if pid else []).kill()


def write_until(url: str, stop: threading.Event) -> None:
    """Give PostgreSQL something to recover."""
    engine = create_engine(as_owner(url))
    while not stop.is_set():
        with contextlib.suppress(DBAPIError), engine.begin() as connection:
            rows = "SELECT 'x' || number FROM generate_series(1, 500) AS number"
            connection.execute(text(f"INSERT INTO kept {rows}"))
        stop.wait(0.02)
    engine.dispose()


def can_connect(url: str) -> bool:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return bool(connection.scalar(text("SELECT true")))
    except DBAPIError:  # psycopg2 has no single error for a session that was killed
        return False
    finally:
        engine.dispose()


def count_for_long(url: str) -> None:
    """Keep one session's processor busy, whatever becomes of it."""
    engine = create_engine(url)
    with pytest.raises(DBAPIError, match="server closed"), engine.connect() as connection:
        connection.execute(text("SELECT count(*) FROM generate_series(1, 1000000000)"))
    engine.dispose()


def count_busy_sessions(url: str) -> int:
    engine = create_engine(url)
    with engine.connect() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT count(*) FROM gen%'"
        busy = connection.scalar(text(query + " AND state = 'active'"))
    engine.dispose()
    return int(busy or 0)
