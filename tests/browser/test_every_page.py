"""Every page at both widths and in both schemes: nothing that axe-core, the console, the policy of
the page or a ruler complains of. The pictures are kept under var/screenshots."""

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import SCHEMES, WIDTHS, Window
from tests.browser.measures import axe_violations, overflow, shifts
from tests.browser.pages import EXAMPLES, OTHERS, PAGES, Example, opened_for
from tests.browser.site import Site, list_routes


def test_every_route_has_an_example(site: Site) -> None:
    assert list_routes(site.system) == set(PAGES) | set(OTHERS)


@pytest.mark.parametrize("example", EXAMPLES, ids=[one.name for one in EXAMPLES])
def test_nothing_is_wrong_with_the_page(browser: Browser, site: Site, example: Example) -> None:
    wrong = []
    for width in WIDTHS:
        with opened_for(browser, site, example, width=width) as window:
            wrong += _visit(window, example, site, width)
            assert window.strangers == []
    assert wrong == []


def _visit(window: Window, example: Example, site: Site, width: int) -> list[str]:
    """Load the page at this width, and look at it in both schemes."""
    example.show(window, site)
    wrong = [*shifts(window), *overflow(window), *window.take_complaints()]
    for scheme in SCHEMES:
        window.look(width, scheme)
        # Each scheme and each width once; a page of the width of a desk shows the most.
        if width == WIDTHS[0] or scheme == "dark":
            window.shoot(f"{example.name}-{width}-{scheme}")
            wrong += [f"{scheme}: {line}" for line in axe_violations(window)]
    return [f"{width}: {line}" for line in wrong]
