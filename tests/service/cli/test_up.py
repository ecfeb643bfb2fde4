"""tallystick up as a user runs it: a separate process, reached over HTTP and by commands."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import psutil
import pytest
import requests

from service.cli.local_calls import LocalService
from service.cli.seed import SEEDED_EMAIL, seed
from service.config import Config
from service.operations.local.listening import LoopbackSockets, PortTakenError
from service.operations.local.run_state import find_state
from tests.embedded.processes import is_gone, wait_until

ROOT = Path(__file__).parents[3]


class Up:
    """A running `tallystick up` and the processes under it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service", "up", "--data", str(folder), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=plain_environment(),
        )
        assert self.process.stdout is not None
        self.ready_line = self.process.stdout.readline()
        self.sign_in_line = self.process.stdout.readline()
        self.seed_line = ""
        self.base_url = self.ready_line.split()[4] if self.ready_line else ""

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def find(self, argument: str) -> list[psutil.Process]:
        """The processes with this word in their command line, parents first."""
        return [child for child in self.processes() if argument in words_of(child)]

    def stop(self, stop_signal: signal.Signals) -> tuple[int, str]:
        """Its exit status and what it said on standard error."""
        self.process.send_signal(stop_signal)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # It ended just now.
        return []


def plain_environment() -> dict[str, str]:
    """As on a machine where nothing is set up."""
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


def tallystick(*arguments: str, folder: Path | None) -> "subprocess.CompletedProcess[str]":
    data = ("--data", str(folder)) if folder else ()
    return subprocess.run(
        [sys.executable, "-m", "service", *arguments, *data],
        capture_output=True,
        text=True,
        env=plain_environment(),
        check=False,
    )


@pytest.fixture(scope="module")
def up(servers_folder: Path) -> Iterator[Up]:
    up = Up(servers_folder / "up", "--seed", "--reload")
    assert up.process.stdout is not None
    up.seed_line = up.process.stdout.readline()
    yield up
    if up.process.poll() is None:
        up.stop(signal.SIGTERM)


def test_one_line_shows_the_url_when_ready(up: Up) -> None:
    port = up.base_url.removeprefix("http://localhost:")
    assert up.ready_line == f"Tallystick is ready at http://localhost:{port} (Ctrl-C stops it)\n"
    assert requests.get(f"{up.base_url}/readyz", timeout=10).status_code == 200


def test_the_owner_signs_in_once_with_the_link_in_the_terminal(up: Up) -> None:
    found = re.fullmatch(r"Sign in as owner@localhost: (\S+)\n", up.sign_in_line)
    assert found is not None
    assert found[1].startswith(f"{up.base_url}/auth/verify?token=ml_")
    signed_in = requests.get(found[1], timeout=10)
    assert "You're signed in" in signed_in.text
    cookie = signed_in.headers["Set-Cookie"].partition(";")[0]
    page = requests.get(f"{up.base_url}/upload", headers={"Cookie": cookie}, timeout=10)
    assert "You own this installation" in page.text
    assert requests.get(found[1], timeout=10).status_code == 422
    secret = found[1].partition("token=")[2]
    kept = [path for folder in ("log", "outbox") for path in (up.folder / folder).rglob("*")]
    assert kept
    assert not [path for path in kept if secret in path.read_text()]


def test_mail_lies_in_the_outbox_and_signs_in(up: Up) -> None:
    asked = requests.post(
        f"{up.base_url}/auth/magic-link", json={"email": "ada@example.org"}, timeout=10
    )
    assert asked.status_code == 200
    outbox = up.folder / "outbox"
    wait_until(lambda: bool(mails_to("ada@example.org", outbox)), 20)
    [mail] = mails_to("ada@example.org", outbox)
    assert stat.S_IMODE(mail.stat().st_mode) == 0o600
    [link] = [line for line in mail.read_text().splitlines() if line.startswith("http")][:1]
    assert link.startswith(f"{up.base_url}/auth/verify?token=")
    answer = requests.get(link, timeout=10)
    assert answer.status_code == 200
    assert "You're signed in" in answer.text


def mails_to(address: str, outbox: Path) -> list[Path]:
    return [file for file in outbox.glob("*.eml") if f"To: {address}" in file.read_text()]


def test_a_second_up_on_the_folder_is_rejected_in_one_line(up: Up) -> None:
    second = tallystick("up", folder=up.folder)
    assert second.returncode == 2
    assert second.stderr.startswith("Error: tallystick is already running in ")
    assert second.stderr.count("\n") == 1


def test_a_port_in_use_is_rejected_in_one_line(up: Up, servers_folder: Path) -> None:
    port = up.base_url.rpartition(":")[2]
    other = tallystick("up", "--port", port, folder=servers_folder / "other")
    assert other.returncode == 2
    assert other.stderr == f"Error: port {port} is in use; choose another with --port\n"


@pytest.fixture(scope="module")
def both(servers_folder: Path) -> Iterator[tuple[Up, Up]]:
    """Two that were started at the same moment; the first tests find both running."""
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(Up, [servers_folder / "first", servers_folder / "second"])
    yield first, second
    for each in (first, second):
        if each.process.poll() is None:
            each.stop(signal.SIGTERM)


def test_two_at_once_each_serve_on_a_port_of_their_own(both: tuple[Up, Up]) -> None:
    assert all(each.base_url for each in both)
    assert both[0].base_url != both[1].base_url
    for each in both:
        asked = requests.post(
            f"{each.base_url}/auth/magic-link", json={"email": "ada@example.org"}, timeout=10
        )
        assert asked.status_code == 200
        assert wait_until(partial(has_mail, each.folder))


def has_mail(folder: Path) -> bool:
    return any((folder / "outbox").glob("*.eml"))


def test_it_listens_on_this_machine_only(up: Up) -> None:
    port = int(up.base_url.rpartition(":")[2])
    listening = [
        connection.laddr.ip
        for process in up.processes()
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN and connection.family != socket.AF_UNIX
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::1"}
    assert requests.get(f"http://127.0.0.1:{port}/healthz", timeout=10).status_code == 200


def test_secrets_are_readable_by_their_owner_alone(up: Up) -> None:
    for name in ("secret_key", "state.json"):
        assert stat.S_IMODE((up.folder / name).stat().st_mode) == 0o600
    for name in ("blobs", "log"):
        assert stat.S_IMODE((up.folder / name).stat().st_mode) == 0o700


def test_a_minted_key_sends_and_a_minted_token_reads(up: Up) -> None:
    tallystick("account", "create", "b@example.com", "--plan", "pro", folder=up.folder)
    minted = tallystick(
        "account", "mint", "b@example.com", "ingest-key", "--json", folder=up.folder
    )
    key = json.loads(minted.stdout)
    assert set(key) == {"ingest_key", "dsn"}
    host = up.base_url.removeprefix("http://")
    assert key["dsn"] == f"http://{key['ingest_key']}@{host}"
    minted = tallystick(
        "account", "mint", "b@example.com", "read-token", "--json", folder=up.folder
    )
    token = json.loads(minted.stdout)
    assert set(token) == {"read_token"}

    record = {
        "ts": "2026-01-02T03:04:05Z",
        "provider": "openai",
        "model": "gpt-4o",
        "prompt_tokens": 100,
        "completion_tokens": 10,
    }
    sent = requests.post(
        f"{up.base_url}/api/v1/ingest",
        json={"records": [record]},
        headers={"Authorization": f"Bearer {key['ingest_key']}"},
        timeout=10,
    )
    assert sent.status_code == 201
    assert wait_until(lambda: list_statuses(up, token["read_token"]) == ["done"])


def list_statuses(up: Up, token: str) -> list[str]:
    time.sleep(0.2)  # Reads are limited, too.
    headers = {"Authorization": f"Bearer {token}"}
    listed = requests.get(f"{up.base_url}/api/v1/audits", headers=headers, timeout=10).json()
    return [audit["status"] for audit in listed["audits"]]


def test_a_command_without_a_running_service_says_so(tmp_path: Path) -> None:
    result = tallystick("worker", folder=tmp_path / "nothing")
    assert result.returncode == 2
    assert f"start it with: tallystick up --data {tmp_path / 'nothing'}" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_tables_of_a_running_service_can_be_migrated_again(up: Up) -> None:
    assert tallystick("migrate", folder=up.folder).returncode == 0


@pytest.mark.parametrize(
    "part", ["--config=python:service.web.server.gunicorn_config", "worker", "sweeper"]
)
def test_a_crashed_part_is_started_again(up: Up, part: str) -> None:
    crashed = up.find(part)[0]
    crashed.kill()
    assert wait_until(lambda: is_replaced(up, part, crashed))
    assert wait_until(lambda: is_ready(up))


def is_replaced(up: Up, part: str, old: psutil.Process) -> bool:
    return any(process != old and process.is_running() for process in up.find(part)[:1])


def is_ready(up: Up) -> bool:
    try:
        return requests.get(f"{up.base_url}/readyz", timeout=5).status_code == 200
    except requests.RequestException:  # The port listens while the web process starts again.
        return False


def test_a_change_of_code_restarts_web_and_workers_on_the_same_port(up: Up) -> None:
    parts = ("--config=python:service.web.server.gunicorn_config", "worker", "sweeper")
    old = {part: up.find(part)[0] for part in parts}
    database = up.find("postgres")[:1]
    os.utime(ROOT / "worker.py")
    assert up.process.stdout is not None
    lines = iter(up.process.stdout.readline, "")
    assert next(line for line in lines if "changed" in line).startswith("worker.py changed.")
    assert next(lines) == f"Ready again at {up.base_url}\n"
    assert requests.get(f"{up.base_url}/readyz", timeout=10).status_code == 200
    assert all(is_replaced(up, part, process) for part, process in old.items())
    assert up.find("postgres")[:1] == database


def test_a_seeded_account_is_full_and_seeding_again_adds_nothing(up: Up) -> None:
    found = re.fullmatch(r"Sign in as seed@tallystick\.example: (\S+)\n", up.seed_line)
    assert found is not None
    state = find_state(up.folder)
    assert state is not None
    service = LocalService(Config.from_environment(state), int(up.base_url.rpartition(":")[2]))
    seen, link = [], found[1]
    for _ in range(2):
        cookie = requests.get(link, timeout=10).headers["Set-Cookie"].partition(";")[0]
        pages = [get_page(up, name, cookie) for name in ("dashboard", "developer", "billing")]
        seen.append([page.count("<tr>") for page in pages])
        link = seed(service)
    assert seen[0] == seen[1]
    assert "Top findings" in pages[0]
    assert "checkout-service" in pages[1]
    listed = json.loads(tallystick("admin", "audits", "--json", folder=up.folder).stdout)
    audits = [audit for audit in listed if audit["email"] == SEEDED_EMAIL]
    assert len(audits) == 16
    assert {audit["status"] for audit in audits} == {"done", "failed"}
    days = sorted(date.fromisoformat(audit["created_at"][:10]) for audit in audits)
    assert days[-1] - days[0] == timedelta(days=55)


def get_page(up: Up, name: str, cookie: str) -> str:
    page = requests.get(f"{up.base_url}/{name}", headers={"Cookie": cookie}, timeout=10)
    assert page.status_code == 200
    return page.text


def test_a_crashed_web_process_keeps_its_port(up: Up) -> None:
    port = int(up.base_url.rpartition(":")[2])
    up.find("--config=python:service.web.server.gunicorn_config")[0].kill()
    with pytest.raises(PortTakenError):
        LoopbackSockets.open(port, port)
    assert wait_until(lambda: is_ready(up))


def test_ctrl_c_stops_everything_within_seconds(both: tuple[Up, Up]) -> None:
    assert_stops(both[0], signal.SIGINT)


def assert_stops(up: Up, stop_signal: signal.Signals) -> None:
    everyone = up.processes()
    assert len(everyone) > 8
    started = time.monotonic()
    status, said = up.stop(stop_signal)
    assert time.monotonic() - started < 15
    assert (status, said) == (0, "Stopping.\n")
    assert all(is_gone(process.pid) for process in everyone)
    assert not (up.folder / "state.json").exists()


def test_a_killed_up_leaves_nothing_running_and_its_secret_stays(both: tuple[Up, Up]) -> None:
    """The next one on its folder works, and a service manager's signal stops that in seconds."""
    killed, folder = both[1], both[1].folder
    everyone, secret = killed.processes(), (folder / "secret_key").read_text()
    killed.stop(signal.SIGKILL)
    assert tallystick("migrate", folder=folder).returncode == 2
    assert wait_until(lambda: all(is_gone(process.pid) for process in everyone))
    again = Up(folder)
    assert (folder / "secret_key").read_text() == secret
    assert_stops(again, signal.SIGTERM)


def test_a_web_process_that_cannot_start_is_reported(servers_folder: Path) -> None:
    broken = subprocess.run(
        [sys.executable, "-m", "service", "up", "--data", str(servers_folder / "broken")],
        capture_output=True,
        text=True,
        env={**plain_environment(), "STORAGE_URL": "ftp://example.com"},
        check=False,
    )
    assert broken.returncode == 2
    assert "STORAGE_URL" in broken.stderr
    assert broken.stderr.count("\n") == 1
