"""Commands that pages offer to copy work unchanged against the running service."""

import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests

import tallystick
from service.models import Subscription
from service.models.identity.accounts import find_account
from service.web.auth.browsers import SESSION_COOKIE
from tests.service.support.browser import codes_of
from tests.service.support.live import LiveService


def _run(command: str, url: str) -> requests.Response:
    """What curl would do with this command, sent to where the service listens."""
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:2] == ["curl", "-sS"]
    headers, data, address = {}, None, ""
    rest = iter(words[2:])
    for word in rest:
        if word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            data = next(rest)
        else:
            address = word
    address = address.replace("http://localhost:8000", url)
    method = "GET" if data is None else "POST"
    return requests.request(method, address, headers=headers, data=data, timeout=60)


class _Visitor:
    """A signed-in browser over real HTTP."""

    def __init__(self, live: LiveService, email: str, plan: str = "pro") -> None:
        self.url, self.headers = live.url, live.sign_in(email)
        with live.sessions() as session:
            account = find_account(session, email)
            assert account is not None
            self.account_id = account.id
            paid = {"plan": plan, "status": "active", "provider": "comp"}
            session.add(Subscription(account_id=account.id, **paid))
            session.commit()

    def post(self, page: str, action: str, **fields: Any) -> requests.Response:
        loaded = requests.get(f"{self.url}{page}", headers=self.headers, timeout=60)
        cookie = re.search(rf"{SESSION_COOKIE}=[^;]+", loaded.headers.get("Set-Cookie", ""))
        if cookie:
            self.headers = {"Cookie": cookie[0]}
        token = re.findall(r'name="csrf_token" value="([^"]+)"', loaded.text)[0]
        form = {"csrf_token": token, **fields}
        return requests.post(
            f"{self.url}{action}",
            headers=self.headers,
            data=form,
            timeout=60,
            allow_redirects=False,
        )


def _commands(page: str) -> list[str]:
    return [code for code in codes_of(page) if code.startswith("curl ")]


def test_the_commands_shown_with_a_new_secret_work_as_they_stand(live: LiveService) -> None:
    visitor = _Visitor(live, "copies@example.org")
    key = visitor.post("/developer", "/developer/ingest-keys", label="a").text
    [ingest] = _commands(key)
    accepted = _run(ingest, live.url)
    assert (accepted.status_code, accepted.json()["records"]) == (201, 1)
    token = visitor.post("/developer", "/developer/read-tokens", scope=["read:audits"]).text
    [read] = _commands(token)
    assert [one["id"] for one in _run(read, live.url).json()["audits"]] == [
        accepted.json()["audit_id"]
    ]


@pytest.mark.stress
def test_the_client_installs_from_the_service_into_an_empty_environment(
    live: LiveService, tmp_path: Path
) -> None:
    """By default, `test_client_index.py` reads the index and compares the wheel."""
    visitor = _Visitor(live, f"{uuid4().hex}@example.org")
    page = visitor.post("/developer", "/developer/ingest-keys", label="").text
    [command] = [code for code in codes_of(page) if code.startswith("pip install ")]
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    words = shlex.split(command.replace("http://localhost:8000", live.url))
    pip = [sys.executable, "-m", "pip", "--isolated", "--no-cache-dir", "--python", str(python)]
    subprocess.run([*pip, *words[1:]], cwd=tmp_path, check=True, timeout=120)
    program = "import tallystick; print(tallystick.__version__, tallystick.__file__)"
    imported = subprocess.run(
        [python, "-I", "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    version, file = imported.stdout.split()
    assert version == tallystick.__version__
    assert Path(file).is_relative_to(tmp_path)
