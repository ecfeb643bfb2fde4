"""Every page at both widths and in both schemes, without errors from axe-core, the console, the
content security policy or the layout checks. With `SCREENSHOTS=1`, pictures are in
var/screenshots.
"""

from collections.abc import Iterable

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import AT_LOOKS, WIDTHS, Looks, Scheme, Window
from tests.browser.measures import axe_violations, overflow, shifts
from tests.browser.pages import EXAMPLES, OTHERS, PAGES, Example, opened_for
from tests.browser.site import Site, list_routes


def test_every_route_has_an_example(site: Site) -> None:
    assert list_routes(site.system) == set(PAGES) | set(OTHERS)


@AT_LOOKS
@pytest.mark.parametrize("example", EXAMPLES, ids=[one.name for one in EXAMPLES])
def test_nothing_is_wrong_with_the_page(
    browser: Browser, site: Site, example: Example, looks: Looks
) -> None:
    wrong = []
    for width in WIDTHS:
        with opened_for(browser, site, example, width=width) as window:
            schemes = [scheme for seen_at, scheme in looks if seen_at == width]
            wrong += _visit(window, example, site, schemes)
            assert window.foreign_requests == []
    assert wrong == []


def _visit(window: Window, example: Example, site: Site, schemes: Iterable[Scheme]) -> list[str]:
    """Load the page, and look at it in these schemes."""
    example.show(window, site)
    wrong = [*shifts(window), *overflow(window), *window.take_complaints()]
    for scheme in schemes:
        window.look(window.width, scheme)
        window.shoot(f"{example.name}-{window.width}-{scheme}")
        wrong += [f"{scheme}: {line}" for line in axe_violations(window)]
    return [f"{window.width}: {line}" for line in wrong]
