"""Drive Debian's Chromium over a pipe; windows record what their pages report as errors."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

ROOT: Final = Path(__file__).parents[2]
SCREENSHOTS: Final = ROOT / "var" / "screenshots"
# Screenshots are for people, and take Chromium longer than all else that a test of a page does.
TAKES_SCREENSHOTS: Final = bool(os.environ.get("SCREENSHOTS"))
MISSING: Final = "no chromium here: install Debian's (apt install chromium-headless-shell)"

Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
WIDTHS: Final = (1280, 360)
Look = tuple[int, Scheme]
# In this order, two pages in a row differ in both.
LOOKS: Final[tuple[Look, ...]] = ((1280, "light"), (360, "dark"), (1280, "dark"), (360, "light"))
_HEIGHTS: Final = {1280: 900, 360: 740}
# What a page waits for on a busy machine; by default, `expect` gives up after five seconds.
_MOST_MILLISECONDS: Final = 60_000
expect.set_options(timeout=_MOST_MILLISECONDS)

# What moves after it was first painted, other than by what somebody did. Chromium may paint in the
# midst of a page that is still coming in: the last pixels of a row's width are no move (0.1 is the
# most that counts as good).
_WATCH_SHIFTS: Final = """
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) {
      if (shift.hadRecentInput || shift.value < 0.01) continue;
      const named = (node) => node && (node.id || node.textContent.trim().slice(0, 40));
      const moved = shift.sources.map(({ node }) => named(node));
      window.shifts.push(`${shift.value} ${moved.join(" ")}`);
    }
  }).observe({ type: "layout-shift", buffered: true });
"""
# A picture of the whole page shows what is otherwise laid out when somebody comes to it.
_LAY_OUT: Final = """() => {
  for (const one of document.querySelectorAll(".later, .unread, .operation")) {
    one.style.contentVisibility = "visible";
  }
}"""


def in_turn(values: Iterable[Any]) -> list[Any]:
    """Return parameters that give each value one look: the first, the second, and so on."""
    return [
        pytest.param(value, look, id=f"{getattr(value, 'name', value)}-{look[0]}-{look[1]}")
        for value, look in zip(values, cycle(LOOKS), strict=False)
    ]


def find_chromium() -> str | None:
    """Prefer the shell: without the browser's own window, a page takes a third less CPU time."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def launched(path: str) -> Iterator[Browser]:
    """As root Chromium runs only without its sandbox; all that it loads here is our own."""
    options = ["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Window:
    """One person's browser: its page, what was complained of, and whom it asked for anything."""

    context: BrowserContext
    page: Page
    width: int
    complaints: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)

    def look(self, width: int, scheme: Scheme) -> None:
        self.page.emulate_media(color_scheme=scheme)
        self.width = width
        self.page.set_viewport_size({"width": width, "height": _HEIGHTS[width]})

    def wait_until_stable(self) -> None:
        """Until what is seen stands still: styles, fonts and two frames."""
        self.page.wait_for_load_state("load")
        self.page.evaluate(
            "() => document.fonts.ready.then(() => new Promise((done) =>"
            " requestAnimationFrame(() => requestAnimationFrame(done))))"
        )

    def shoot(self, name: str) -> None:
        """Lay out the whole page; save a screenshot if the environment asks for them."""
        self.page.evaluate(_LAY_OUT)
        if TAKES_SCREENSHOTS:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            path = SCREENSHOTS / f"{name}.png"
            self.page.screenshot(path=path, full_page=True, animations="disabled")

    def take_complaints(self) -> list[str]:
        """What its pages have complained of since this was last asked."""
        taken, self.complaints[:] = self.complaints[:], []
        return taken


@contextmanager
def opened(
    browser: Browser, base_url: str, cookie: dict[str, str] | None = None, **options: Any
) -> Iterator[Window]:
    """A window of its own; `cookie` is that of somebody who is signed in."""
    width = options.pop("width", WIDTHS[0])
    viewport = {"width": width, "height": _HEIGHTS[width]}
    # Without this, checks would see colors halfway through the transition between schemes.
    options = {"reduced_motion": "reduce", **options}
    context = browser.new_context(base_url=base_url, viewport=viewport, **options)  # type: ignore[arg-type]
    context.set_default_timeout(_MOST_MILLISECONDS)
    if cookie is not None:
        context.add_cookies([{"url": base_url, **cookie}])  # type: ignore[typeddict-item]
    context.add_init_script(_WATCH_SHIFTS)
    window = Window(context, context.new_page(), width)
    _watch(window, base_url)
    try:
        yield window
    finally:
        context.close()


def _watch(window: Window, base_url: str) -> None:
    def hear(message: ConsoleMessage) -> None:
        # That an answer was an error is said of every page that is one.
        if message.type in ("error", "warning") and "status of" not in message.text:
            window.complaints.append(f"{message.type}: {message.text}")

    def see(request: Request) -> None:
        if not request.url.startswith((f"{base_url}/", "data:", "blob:")):
            window.foreign_requests.append(request.url)

    window.page.on("console", hear)
    window.page.on("pageerror", lambda error: window.complaints.append(str(error)))
    window.context.on("request", see)
