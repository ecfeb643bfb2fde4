"""Every page, without errors from axe-core, the console, the content security policy or the layout
checks: every eighth template at one width and in one scheme, with some rows of each list for
axe-core; under stress the other templates too, and every page in full, at every width in every
scheme. With `SCREENSHOTS=1`, pictures are in var/screenshots.
"""

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import SCHEMES, WIDTHS, Look, Window, in_turn
from tests.browser.measures import axe_violations, overflow, shifts, spilled, thin, too_heavy
from tests.browser.pages import EXAMPLES, OTHERS, PAGES, TEMPLATES, Example, opened_for
from tests.browser.site import Site, list_routes
from tests.browser.windows import Windows


def test_every_route_has_an_example(site: Site) -> None:
    assert list_routes(site.system) == set(PAGES) | set(OTHERS)


# Two of sixteen, which have both widths and both schemes.
@pytest.mark.parametrize(
    ("example", "look"),
    [
        pytest.param(
            *each.values,
            id=each.id,
            marks=[pytest.mark.stress] if number % 16 not in (0, 9) else [],
        )
        for number, each in enumerate(in_turn(TEMPLATES))
    ],
)
def test_nothing_is_wrong_with_the_page(windows: Windows, example: Example, look: Look) -> None:
    """axe-core looks at some of these for colors and sizes too, which one style sheet decides."""
    window = windows.show(example, look)
    wrong = [*_find_moves(window), *too_heavy(window)]
    _shoot(window, example, look)
    thin(window)
    wrong += axe_violations(window, in_full=TEMPLATES.index(example) % 16 in (0, 9))
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


# Between a phone's cards and a desk's columns: with the rail beside the page and without it.
@pytest.mark.stress
@pytest.mark.parametrize("width", [720, 1000])
def test_no_cell_is_wider_than_its_column_on_a_tablet(windows: Windows, width: int) -> None:
    wrong = {}
    for example in TEMPLATES:
        window = windows.show(example)
        window.page.set_viewport_size({"width": width, "height": 900})
        if found := [*spilled(window), *overflow(window)]:
            wrong[example.name] = found
    assert wrong == {}
