"""The paint benchmark: when Chromium first paints something of each page, on loopback.

    python -m benchmarks.paint [--loads N] [--audits N]

The pages and the account are those of `benchmarks/pages.py`, with a report of 400 findings. Each
load has a new browser profile, so nothing is cached; the browser is already running. It draws
without a graphics card, on the same processors.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser
from rich.console import Console
from rich.table import Table

from benchmarks.pages import ADMIN_TOKEN, SETTINGS, list_pages, prepare
from benchmarks.running import print_machine
from service.operations.local.stack import Stack
from service.web.auth.browsers import SESSION_COOKIE
from tests.browser.chromium import find_chromium, launched

BAR_MS: Final = 200.0
_PAINTED: Final = """() => new Promise((done) => {
  new PerformanceObserver((list) => {
    for (const entry of list.getEntriesByName("first-contentful-paint")) done(entry.startTime);
  }).observe({ type: "paint", buffered: true });
})"""


def paint(browser: Browser, url: str, cookie: str) -> float | None:
    """Return the milliseconds from the start of a load; None if it is not a page."""
    headers = {"X-Admin-Token": ADMIN_TOKEN} if "/admin" in url else {}
    with browser.new_context(extra_http_headers=headers) as context:
        context.add_cookies([{"name": SESSION_COOKIE, "value": cookie, "url": url}])
        kind = context.request.head(url).headers.get("content-type", "")
        if not kind.startswith("text/html") or url.endswith("/progress"):
            return None
        page = context.new_page()
        page.goto(url)
        return float(page.evaluate(_PAINTED))


def paint_all(stack: Stack, loads: int, audits: int) -> Iterator[tuple[str, list[float]]]:
    path = find_chromium()
    if path is None:
        raise SystemExit("Chromium is missing: on Debian, apt install chromium-headless-shell")
    app, cookie = prepare(stack, audits)
    with launched(path) as browser:
        for address in list_pages(app, stack.config.secret_key):
            url = f"http://127.0.0.1:{stack.port}{address}"
            first = paint(browser, url, cookie)
            if first is not None:
                yield address, [paint(browser, url, cookie) or 0.0 for _ in range(loads)]


def print_table(results: Iterator[tuple[str, list[float]]]) -> None:
    print_machine()
    table = Table(title="First contentful paint, nothing cached")
    for heading in ("page", "p50", "slowest", f"<= {BAR_MS:.0f} ms"):
        table.add_column(heading)
    for address, times in results:
        shown = "/r/<token>" if address.startswith("/r/") else address
        p50, met = statistics.median(times), "yes" if statistics.median(times) <= BAR_MS else "no"
        table.add_row(shown, f"{p50:.0f} ms", f"{max(times):.0f} ms", met)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--loads", type=int, default=7, help="loads of each page")
    parser.add_argument("--audits", type=int, default=10_000, help="audits in the account")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tallystick-paint-"))
    folder.chmod(0o711)  # PostgreSQL runs as another user where this runs as root
    try:
        with Stack(folder / "var", None, SETTINGS) as stack:
            print_table(paint_all(stack, arguments.loads, arguments.audits))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
