"""Scripts that arrive after the first paint move nothing."""

from typing import Final

import pytest
from playwright.sync_api import Browser, Route

from tests.browser.chromium import Window
from tests.browser.pages import named, opened_for
from tests.browser.site import Site

_PAINTED: Final = """() => document.readyState !== "loading"
  && performance.getEntriesByName("first-contentful-paint").length > 0"""
_TWO_FRAMES: Final = (
    "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
)


class Held:
    """The scripts of a page, which wait until they are let go."""

    def __init__(self, window: Window) -> None:
        self._routes: list[Route] = []
        self._is_open = False
        window.context.route("**/static/*.js*", self._take)

    def _take(self, route: Route) -> None:
        if self._is_open:
            route.continue_()
        else:
            self._routes.append(route)

    def let_go(self) -> int:
        self._is_open = True
        for route in self._routes:
            route.continue_()
        return len(self._routes)


# Copy buttons, and a page with a script of its own.
@pytest.mark.parametrize("name", ["account-finding", "upload"])
def test_nothing_moves_when_scripts_come_late(browser: Browser, site: Site, name: str) -> None:
    example = named(name)
    with opened_for(browser, site, example) as window:
        held = Held(window)
        window.page.goto(example.path_on(site), wait_until="commit")
        window.page.wait_for_function(_PAINTED)
        window.page.evaluate(_TWO_FRAMES)
        assert held.let_go()
        window.wait_until_stable()
        window.page.evaluate(_TWO_FRAMES)
        assert window.page.evaluate("() => window.shifts") == []
