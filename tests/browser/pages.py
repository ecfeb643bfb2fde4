"""Every page of the application: its path, who may see it, and its status, from pages.toml.

The routes are those of the application's own URL map, so a page without a line here fails a test.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import requests
from playwright.sync_api import Browser, Response

from service.web.pages.public.client_index import get_client_wheel
from tests.browser.chromium import Window, opened
from tests.browser.site import Site
from tests.browser.states import STATES, Act
from tests.cases import data_of
from tests.service.support.scenes import ADMIN_TOKEN
from tests.worker.support.mailing import get

_WHEEL: Final = get_client_wheel()
ADMIN_HEADERS: Final = {"X-Admin-Token": ADMIN_TOKEN}


@dataclass(frozen=True)
class Example:
    """One page as somebody sees it: `path` may hold names of what the site has in braces."""

    name: str
    path: str
    status: int = 200
    visitor: str | None = None
    is_admin: bool = False
    act: Act | None = None  # what is done there to see the page

    def path_on(self, site: Site) -> str:
        known = {name: getattr(site, name) for name in _NAMES}
        known["wheel"] = f"{_WHEEL.sha256}/{_WHEEL.file_name}"
        asked = urlencode(site.application.asks())
        return self.path.format(asked=asked, application=site.application.id, **known)

    def headers(self, site: Site) -> dict[str, str]:
        """What the visitor's browser sends along."""
        headers = {"Accept": "text/html", **(ADMIN_HEADERS if self.is_admin else {})}
        if self.visitor:
            headers["Cookie"] = "{name}={value}".format(**site.cookie(self.visitor))
        return headers

    def fetch(self, site: Site) -> requests.Response:
        """Return the response to the visitor, without a browser; one for all tests."""
        if self.name not in site.responses:
            headers = self.headers(site)
            site.responses[self.name] = get(site.system, self.path_on(site), **headers)
        return site.responses[self.name]

    def show(self, window: Window, site: Site) -> Response:
        """Open the page, act on it, and return the last response."""
        response = window.page.goto(self.path_on(site))
        assert response is not None
        assert response.status == (200 if self.act else self.status), self.name
        if self.act is not None:
            with window.page.expect_navigation() as navigation:
                self.act(window.page)
            response = navigation.value
        window.wait_until_stable()
        return response


_NAMES: Final = (
    "done",
    "failed",
    "queued",
    "processing",
    "broken",
    "report_token",
    "waiting_token",
    "link_token",
    "open_finding",
    "fixed_finding",
    "connection",
)


_KNOWN: Final = data_of(__file__)
PAGES: Final[Mapping[str, tuple[Example, ...]]] = {
    route: tuple(Example(**one) for one in examples) for route, examples in _KNOWN["pages"].items()
}
# What is no page of its own: the type of what it answers instead, and to whom.
OTHERS: Final[Mapping[str, tuple[str, Example]]] = {
    route: (one["type"], Example(**{name: one[name] for name in one if name != "type"}))
    for route, one in _KNOWN["others"].items()
}

# Pages that no route has: answers to what was done on another one, and errors.
BEYOND: Final = (
    *(
        Example(name, path, 200, f"{person}@example.org" if person else None, act=act)
        for name, (path, person, act) in STATES.items()
    ),
    Example("nothing", "/nothing", 404),
    Example("error-405", "/auth/logout", 405),
)
EXAMPLES: Final = (*(one for examples in PAGES.values() for one in examples), *BEYOND)
# Each template once: the first page of a route, but for routes that share a template, and for those
# that have a second one.
_ONE_OF_EACH: Final = (
    {examples[0].name for examples in PAGES.values()} - {"sample", "legal-dpa", "legal-privacy"}
) | {"upload", "report-finding", "report-waiting", "nothing"}
TEMPLATES: Final = tuple(example for example in EXAMPLES if example.name in _ONE_OF_EACH)
ALL: Final = (*EXAMPLES, *(example for _, example in OTHERS.values()))


def named(name: str) -> Example:
    return next(one for one in EXAMPLES if one.name == name)


@contextmanager
def opened_for(browser: Browser, site: Site, example: Example, **options: Any) -> Iterator[Window]:
    """The window of the page's visitor."""
    headers = ADMIN_HEADERS if example.is_admin else {}
    cookie = site.cookie(example.visitor) if example.visitor else None
    url = site.system.base_url
    with opened(browser, url, cookie, extra_http_headers=headers, **options) as window:
        yield window
