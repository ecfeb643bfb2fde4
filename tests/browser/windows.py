"""One window per visitor for the tests of a process: a new one takes longer than most pages."""

from contextlib import ExitStack
from typing import Self

from playwright.sync_api import Browser

from tests.browser.chromium import LOOKS, Look, Window
from tests.browser.pages import Example, opened_for
from tests.browser.site import Site


class Windows:
    """Shared windows; what a page stores in the browser stays for the next test."""

    def __init__(self, browser: Browser, site: Site) -> None:
        self._browser, self._site = browser, site
        self._open: dict[tuple[str | None, bool], Window] = {}
        self._sources: dict[str, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, example: Example, look: Look = LOOKS[0]) -> Window:
        """Show the page in its visitor's window."""
        window = self._find(example)
        window.look(*look)
        window.take_complaints()
        window.foreign_requests.clear()
        response = example.show(window, self._site)
        if example.act:
            self._sources[example.name] = response.text()
        return window

    def source_of(self, example: Example) -> str:
        """Return the HTML that followed an action, as the service sent it."""
        if example.name not in self._sources:
            self.show(example)
        return self._sources[example.name]

    def _find(self, example: Example) -> Window:
        key = (example.visitor, example.is_admin)
        if key not in self._open:
            opened = opened_for(self._browser, self._site, example)
            self._open[key] = self._stack.enter_context(opened)
        elif example.visitor:
            # The last page may have signed them out.
            cookie = self._site.cookie(example.visitor)
            self._open[key].context.add_cookies([{"url": self._site.system.base_url, **cookie}])  # type: ignore[typeddict-item]
        return self._open[key]
