"""Every command and every line of Python in docs/api runs against the whole service.

The blocks of a guide share a folder and, in one language, their variables. What a person's browser
does in the guide to OAuth is done by a form post.
"""

import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import requests
from sqlalchemy import create_engine

from service.config import Config
from service.core.db import make_session_factory
from service.operations.local.run_state import find_state
from tests.cases import each_case
from tests.running import Up
from tests.service.support.oauth_flow import add_application, answer_of, consent_live
from tests.service.support.scenes import Tenant, add_tenant, batch, sign_in
from tests.service.support.uploads import give_credits

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "api").glob("*.md"))
with socket.socket() as _listener:
    _listener.bind(("127.0.0.1", 0))
    PORT = _listener.getsockname()[1]  # free by the time that the example application listens
REDIRECT_URI = f"http://127.0.0.1:{PORT}/back"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What a guide may show and is not run: answers, not requests.
SHOWN_ONLY = {"json", "toml", "yaml"}
BROWSER = """
def open_in_browser(address):
    from tests.service.support.oauth_flow import consent_live
    return consent_live("", address, {"Cookie": "tallystick_session=" + os.environ["SESSION"]})
"""


def blocks(guide: Path, language: str) -> str:
    return "\n".join(code for name, code in BLOCK.findall(guide.read_text()) if name == language)


@pytest.fixture(scope="module")
def environment(up: Up) -> dict[str, str]:
    """Return what a reader of the guides has in the environment."""
    return {
        **os.environ,
        **_account(up),
        "BASE_URL": up.base_url,
        "REDIRECT_URI": REDIRECT_URI,
        "PORT": str(PORT),
        "PYTHONPATH": str(ROOT),
    }


def _account(up: Up) -> dict[str, str]:
    """An account with every secret, a credit and an audit that is done."""
    state = find_state(up.folder)
    assert state is not None
    config = Config.from_environment(state)
    engine = create_engine(config.database_url)
    sessions = make_session_factory(engine)
    tenant, email = add_tenant(sessions), "reader@example.org"
    _audit_something(up.port, tenant)
    cookie = sign_in(sessions, email, config.secret_key)
    give_credits(sessions, email, 2, cookie)
    application = add_application(sessions, tenant.account_id, REDIRECT_URI)
    engine.dispose()
    return {
        "INGEST_KEY": tenant.key,
        "READ_TOKEN": tenant.token,
        "SESSION": cookie["Cookie"].partition("=")[2],
        "CLIENT_ID": application.client_id,
        "CLIENT_SECRET": application.secret,
    }


def _audit_something(port: int, tenant: Tenant) -> None:
    url = f"http://127.0.0.1:{port}/api/v1"
    sent = requests.post(f"{url}/ingest", json=batch(20), headers=tenant.writes, timeout=60)
    audit = f"{url}/audits/{sent.json()['audit_id']}"
    deadline = time.monotonic() + 60
    while requests.get(audit, headers=tenant.reads, timeout=60).json()["status"] != "done":
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"


@pytest.mark.parametrize("guide", GUIDES, ids=lambda one: one.stem)
def test_every_command_and_line_of_a_guide_runs(
    environment: dict[str, str], tmp_path: Path, guide: Path
) -> None:
    commands, code = blocks(guide, "sh"), blocks(guide, "python")
    assert commands
    _run(["bash", "-euo", "pipefail", "-c", commands], tmp_path, environment)
    if code:
        browser = BROWSER if "open_in_browser" in code else ""
        _run([sys.executable, "-c", f"import os\n{browser}\n{code}"], tmp_path, environment)


@each_case("guide", GUIDES)
def test_no_block_of_a_guide_escapes_being_run(guide: Path) -> None:
    assert {name for name, _ in BLOCK.findall(guide.read_text())} <= {"sh", "python", *SHOWN_ONLY}


@each_case("guide", GUIDES)
def test_every_link_of_a_guide_leads_somewhere(guide: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", guide.read_text()):
        if not target.startswith("https://"):
            assert (guide.parent / target).exists(), target


def test_the_example_application_reads_with_consent(environment: dict[str, str]) -> None:
    command = [sys.executable, str(ROOT / "examples" / "oauth_app.py")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"Open http://127.0.0.1:{PORT}/\n"
            _use_application({"Cookie": f"tallystick_session={environment['SESSION']}"})
        finally:
            process.terminate()


def _use_application(cookie: dict[str, str]) -> None:
    home = f"http://127.0.0.1:{PORT}/"
    begun = requests.get(home, allow_redirects=False, timeout=60)
    assert begun.status_code == http.client.SEE_OTHER
    back = consent_live("", begun.headers["Location"], cookie)
    # Another browser than the one that began gets nothing for the same answer.
    stolen = requests.get(back, timeout=60)
    assert (stolen.status_code, "Begin again" in stolen.text) == (400, True)
    begun = requests.get(home, allow_redirects=False, timeout=60)
    state = begun.cookies["state"]
    back = consent_live("", begun.headers["Location"], cookie)
    assert answer_of(back)["state"] == state
    shown = requests.get(back, headers={"Cookie": f"state={state}"}, timeout=60)
    assert shown.status_code == http.client.OK
    assert "Allowed: read:audits read:findings" in shown.text
    assert re.search(r"\d+ audits", shown.text)
