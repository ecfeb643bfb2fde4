"""Take the pictures of the README: the dashboard, a report and the terminal. `make pictures`

They show the example account of `tallystick up --seed`, in a service that this starts and stops.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Page

from tests.browser.chromium import MISSING, ROOT, find_chromium, launched

PICTURES: Final = ROOT / "docs" / "pictures"
_TALLYSTICK: Final = Path(sys.executable).with_name("tallystick")
_SIZE: Final = {"width": 1280, "height": 800}
_COLORS: Final = 192  # a quarter of the bytes, and nobody sees it
_LINK: Final = re.compile(r"as seed@\S+: (http\S+)")
_TERMINAL: Final = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #10161c }}
pre {{ margin: 0; padding: 24px 28px; color: #d7dee6; font: 15px/1.5 "DejaVu Sans Mono" }}
b {{ color: #62cfb9; font-weight: 400 }}</style><pre><b>$ {command}</b>
{output}</pre>"""


@contextmanager
def _seeded() -> Iterator[str]:
    """Run the service with its example account; yield a sign-in link."""
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "w+") as log:
        command = [str(_TALLYSTICK), "up", "--seed", "--port", "8699", "--data", f"{folder}/data"]
        service = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        try:
            yield _wait_for_link(Path(log.name))
        finally:
            service.terminate()
            service.wait()


def _wait_for_link(log: Path) -> str:
    for _ in range(300):
        found = _LINK.search(log.read_text())
        if found:
            return found[1]
        time.sleep(1)
    raise SystemExit(f"No sign-in link after five minutes:\n{log.read_text()}")


def _shoot(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    file = PICTURES / f"{name}.png"
    page.screenshot(path=file, animations="disabled")
    with Image.open(file) as picture:
        picture.quantize(_COLORS).save(file, optimize=True)


def _shoot_terminal(page: Page) -> None:
    command = "tallystick audit examples/sample-usage.jsonl --top 3"
    output = subprocess.run(
        [_TALLYSTICK, *command.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    page.set_content(_TERMINAL.format(command=escape(command), output=escape(output)))
    _shoot(page, "terminal")


def main() -> None:
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit(MISSING)
    with launched(chromium) as browser, _seeded() as link:
        page = browser.new_page(viewport=_SIZE, device_scale_factor=1, color_scheme="light")  # type: ignore[arg-type]
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/dashboard")
        _shoot(page, "dashboard")
        page.get_by_role("link", name="Open report").click()
        page.wait_for_load_state("networkidle")
        _shoot(page, "report")
        _shoot_terminal(browser.new_page(viewport=_SIZE))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
