"""Every page, without errors from axe-core, the console, the content security policy or the layout
checks: each template at one width and in one scheme, every second for axe-core with some rows of
each list; under stress every page in full, at every width in every scheme. With `SCREENSHOTS=1`,
pictures are in var/screenshots.
"""

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import SCHEMES, WIDTHS, Look, Window, in_turn
from tests.browser.measures import axe_violations, overflow, shifts, thin
from tests.browser.pages import EXAMPLES, OTHERS, PAGES, TEMPLATES, Example, opened_for
from tests.browser.site import Site, list_routes
from tests.browser.windows import Windows


def test_every_route_has_an_example(site: Site) -> None:
    assert list_routes(site.system) == set(PAGES) | set(OTHERS)


@pytest.mark.parametrize(("example", "look"), in_turn(TEMPLATES))
def test_nothing_is_wrong_with_the_page(windows: Windows, example: Example, look: Look) -> None:
    """axe-core looks at every second, at either width and in either scheme; at half of these for
    colors and sizes too, which one style sheet decides.
    """
    number = TEMPLATES.index(example)
    window = windows.show(example, look)
    wrong = _find_moves(window)
    _shoot(window, example, look)
    if number % 4 < 2:
        thin(window)
        wrong += axe_violations(window, in_full=number % 8 < 2)
    assert wrong == []
    assert window.foreign_requests == []


@pytest.mark.stress
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("example", EXAMPLES, ids=[one.name for one in EXAMPLES])
def test_nothing_is_wrong_with_the_page_in_a_new_browser(
    browser: Browser, site: Site, example: Example, width: int
) -> None:
    with opened_for(browser, site, example, width=width) as window:
        example.show(window, site)
        wrong = _find_moves(window)
        for scheme in SCHEMES:
            window.look(width, scheme)
            wrong += [f"{scheme}: {line}" for line in _look_at(window, example, (width, scheme))]
        assert wrong == []
        assert window.foreign_requests == []


def _find_moves(window: Window) -> list[str]:
    return [*shifts(window), *overflow(window), *window.take_complaints()]


def _look_at(window: Window, example: Example, look: Look) -> list[str]:
    _shoot(window, example, look)
    return axe_violations(window)


def _shoot(window: Window, example: Example, look: Look) -> None:
    window.shoot(f"{example.name}-{look[0]}-{look[1]}")
