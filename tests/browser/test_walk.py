"""The whole journey of a new user in a browser: from the landing page to a revoked key."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import Scheme, opened
from tests.browser.site import Site
from tests.browser.walk import Walk

WALKS: Final = [(360, "dark"), (1280, "light")]


@pytest.mark.stress
@pytest.mark.parametrize(("width", "scheme"), WALKS)
def test_a_new_user_finds_the_way(
    browser: Browser, site: Site, width: int, scheme: Scheme, tmp_path: Path
) -> None:
    """By default, it signs in, uploads and shows pages in this folder's other tests."""
    # The refusals on the way are answers, which a console reports as failed loads.
    with opened(browser, site.system.base_url, width=width, color_scheme=scheme) as window:
        walk = Walk(window, site, tmp_path, name="walk", scheme=scheme)
        walk.sign_in()
        walk.pay(walk.find_payment_links())
        walk.be_refused_text()
        walk.upload()
        walk.read_report()
        walk.subscribe()
        command = walk.mint_a_key()
        status, answer = _run(command)
        assert status == 201, answer
        walk.see_the_run(answer["audit_id"])
        walk.revoke()
        status, answer = _run(command)
        assert (status, answer["error"]["code"]) == (401, "unauthorized")
        assert window.take_complaints() == []


def _run(command: str) -> tuple[int, dict[str, Any]]:
    """Return the copied command, with an option that prints the response's status."""
    copied = f"{command} -w '\\n%{{http_code}}'"
    done = subprocess.run(["sh", "-c", copied], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body)
