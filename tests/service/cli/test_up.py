"""tallystick up as a user runs it: a separate process, reached over HTTP and by commands.

That a service manager's signal stops it in order is tested at the end, by its fixture. Restarts are
tested in `test_up_restarts.py`.
"""

import json
import re
import signal
import socket
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from service.cli.sample.account import SEEDED_EMAIL, seed
from service.operations.local.run_state import find_state
from service.web.auth.browsers import SESSION_COOKIE
from tests.embedded.processes import wait_until
from tests.running import ONE_OF_EACH, Up, plain_environment, tallystick
from tests.service.cli.few_calls import make_few_calls
from tests.warm import run_warm


def test_one_line_shows_the_url_when_ready(up: Up) -> None:
    port = up.base_url.removeprefix("http://localhost:")
    assert up.ready_line == f"Tallystick is ready at http://localhost:{port} (Ctrl-C stops it)\n"
    assert requests.get(f"{up.base_url}/readyz", timeout=60).status_code == 200


def test_the_owner_signs_in_once_with_the_link_in_the_terminal(up: Up) -> None:
    found = re.fullmatch(r"Sign in as owner@localhost: (\S+)\n", up.sign_in_line)
    assert found is not None
    assert found[1].startswith(f"{up.base_url}/auth/verify?token=ml_")
    assert "Sign in as <bdi>o…@localhost</bdi>" in requests.get(found[1], timeout=60).text
    signed_in = press_button(found[1])
    assert "<summary>owner@localhost</summary>" in signed_in.text
    assert "url=/dashboard" in signed_in.text
    cookie = session_of(signed_in)
    page = requests.get(f"{up.base_url}/upload", headers={"Cookie": cookie}, timeout=60)
    assert "You own this installation" in page.text
    assert requests.get(found[1], timeout=60).status_code == 422
    secret = found[1].partition("token=")[2]
    kept = [path for folder in ("log", "outbox") for path in (up.folder / folder).rglob("*")]
    assert kept
    assert not [path for path in kept if secret in path.read_text()]


def test_mail_lies_in_the_outbox_and_signs_in(up: Up) -> None:
    asked = requests.post(
        f"{up.base_url}/auth/magic-link", json={"email": "ada@example.org"}, timeout=60
    )
    assert asked.status_code == 200
    outbox = up.folder / "outbox"
    assert wait_until(lambda: bool(mails_to("ada@example.org", outbox)))
    [mail] = mails_to("ada@example.org", outbox)
    assert stat.S_IMODE(mail.stat().st_mode) == 0o600
    [link] = [line for line in mail.read_text().splitlines() if line.startswith("http")][:1]
    assert link.startswith(f"{up.base_url}/auth/verify?token=")
    assert "Sign in as" in requests.get(link, timeout=60).text
    # requests keeps a secure cookie from http, unlike browsers on a loopback address.
    own = "; ".join(f"{one.name}={one.value}" for one in asked.cookies)
    answer = requests.get(link, headers={"Cookie": own}, timeout=60)
    assert answer.status_code == 200
    assert "You're signed in" in answer.text


def press_button(link: str) -> requests.Response:
    """What a browser does that didn't request the link."""
    address, _, token = link.partition("?token=")
    return requests.post(address, json={"token": token}, timeout=60)


def session_of(answer: requests.Response) -> str:
    return f"{SESSION_COOKIE}={answer.cookies[SESSION_COOKIE]}"


def mails_to(address: str, outbox: Path) -> list[Path]:
    return [file for file in outbox.glob("*.eml") if f"To: {address}" in file.read_text()]


def test_a_second_up_on_the_folder_is_rejected_in_one_line(up: Up, servers_folder: Path) -> None:
    second = tallystick("up", folder=up.folder)
    assert second.returncode == 2
    assert second.stderr.startswith("Error: tallystick is already running in ")
    assert second.stderr.count("\n") == 1
    # A port in use is rejected in one line.
    other = tallystick("up", "--port", str(up.port), folder=servers_folder / "other")
    assert other.returncode == 2
    assert other.stderr == f"Error: port {up.port} is in use; choose another with --port\n"


@pytest.mark.stress
def test_two_started_at_once_each_serve_on_a_port_of_their_own(servers_folder: Path) -> None:
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(Up, [servers_folder / "one", servers_folder / "other-one"]))
    try:
        assert len({each.base_url for each in both if each.base_url}) == 2
        for number, each in enumerate(both):
            address, outbox = f"user{number}@example.org", each.folder / "outbox"
            asked = requests.post(
                f"{each.base_url}/auth/magic-link", json={"email": address}, timeout=60
            )
            assert asked.status_code == 200
            assert wait_until(lambda: bool(mails_to(address, outbox)))  # noqa: B023
    finally:
        for each in both:
            each.stop(signal.SIGINT)


def test_it_listens_on_this_machine_only(up: Up) -> None:
    port = up.port
    listening = [
        connection.laddr.ip
        for process in up.processes()
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN and connection.family != socket.AF_UNIX
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::1"}
    assert requests.get(f"http://127.0.0.1:{port}/healthz", timeout=60).status_code == 200


def test_secrets_are_readable_by_their_owner_alone(up: Up) -> None:
    for name in ("secret_key", "state.json"):
        assert stat.S_IMODE((up.folder / name).stat().st_mode) == 0o600
    for name in ("blobs", "log"):
        assert stat.S_IMODE((up.folder / name).stat().st_mode) == 0o700


def test_a_minted_key_sends_and_a_minted_token_reads(up: Up) -> None:
    tallystick("account", "create", "b@example.com", "--plan", "pro", folder=up.folder)
    mint = partial(tallystick, "account", "mint", "b@example.com", "--json", folder=up.folder)
    key = json.loads(mint("ingest-key").stdout)
    assert set(key) == {"ingest_key", "dsn"}
    host = up.base_url.removeprefix("http://")
    assert key["dsn"] == f"http://{key['ingest_key']}@{host}"
    token = json.loads(mint("read-token").stdout)
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
    listed = requests.get(f"{up.base_url}/api/v1/audits", headers=headers, timeout=60).json()
    return [audit["status"] for audit in listed["audits"]]


def test_a_command_without_a_running_service_says_so(tmp_path: Path) -> None:
    result = tallystick("worker", folder=tmp_path / "nothing")
    assert result.returncode == 2
    assert f"start it with: tallystick up --data {tmp_path / 'nothing'}" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_tables_of_a_running_service_can_be_migrated_again(up: Up) -> None:
    assert tallystick("migrate", folder=up.folder).returncode == 0


def test_a_seeded_account_is_full_and_seeding_again_adds_nothing(up: Up) -> None:
    service, seen = up.service(), list[list[int]]()
    for _ in range(2):
        cookie = session_of(press_button(seed(service, make_few_calls)))
        pages = [get_page(up, name, cookie) for name in ("dashboard", "developer", "billing")]
        seen.append([page.count("<tr>") for page in pages])
    assert seen[0] == seen[1]
    assert "Start here" in pages[0]
    assert "checkout-service" in pages[1]
    listed = list[dict[str, Any]]()
    for page in ("1", "2"):
        command = ("admin", "audits", "--json", "--page", page)
        listed += json.loads(tallystick(*command, folder=up.folder).stdout)
    audits = [audit for audit in listed if audit["email"] == SEEDED_EMAIL]
    assert len(audits) == 13
    assert {audit["status"] for audit in audits} == {"done", "failed"}
    days = sorted(date.fromisoformat(audit["created_at"][:10]) for audit in audits)
    assert days[-1] - days[0] == timedelta(days=76)  # from the end of the first two weeks


@pytest.mark.stress
def test_an_account_is_seeded_in_full_by_the_option(servers_folder: Path) -> None:
    up = Up(servers_folder / "seeded", "--seed", **ONE_OF_EACH)
    found = re.fullmatch(r"Sign in as seed@tallystick\.example: (\S+)\n", up.seed_line)
    assert found is not None
    cookie = session_of(press_button(found[1]))
    assert "Start here" in get_page(up, "dashboard", cookie)
    up.stop_in_order(signal.SIGINT)


def get_page(up: Up, name: str, cookie: str) -> str:
    page = requests.get(f"{up.base_url}/{name}", headers={"Cookie": cookie}, timeout=60)
    assert page.status_code == 200
    return page.text


def test_a_web_process_that_cannot_start_is_reported(up: Up, servers_folder: Path) -> None:
    state = find_state(up.folder)
    assert state is not None
    databases = {name: state[name] for name in ("DATABASE_URL", "REDIS_URL")}
    broken = run_warm(
        ("service", "up", "--data", str(servers_folder / "broken")),
        {**plain_environment(), **databases, "STORAGE_URL": "ftp://example.com"},
    )
    assert broken.returncode == 2
    assert "STORAGE_URL" in broken.stderr
    assert broken.stderr.count("\n") == 1
