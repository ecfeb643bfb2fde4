"""Findings on a wide screen: forty at 1440 × 900, with checkboxes on request."""

from typing import Final

from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from tests.browser.measures import axe_violations, overflow
from tests.browser.pages import named, opened_for
from tests.browser.site import Site

_WIDE: Final[ViewportSize] = {"width": 1440, "height": 900}
# As many rows as there may be, below their sticky head.
_REPEAT: Final = """(table) => {
  const rows = [...table.tBodies[0].rows];
  while (table.tBodies[0].rows.length < 100) {
    for (const row of rows) table.tBodies[0].append(row.cloneNode(true));
  }
}"""
_COUNT: Final = """(table) => {
  const top = table.tHead.getBoundingClientRect().bottom - 1;
  const boxes = [...table.tBodies[0].rows].map((row) => row.getBoundingClientRect());
  return boxes.filter((box) => box.top >= top && box.bottom <= innerHeight).length;
}"""

_ADD_RANGE: Final = """(line) => {
  line.insertAdjacentHTML("beforeend", '<span class="range-of"> ($1 to $2)</span>');
}"""
_BACKGROUND: Final = "(line) => getComputedStyle(line).backgroundColor"


def test_forty_findings_are_seen_at_once(browser: Browser, site: Site) -> None:
    with opened_for(browser, site, named("account-findings")) as window:
        window.page.set_viewport_size(_WIDE)
        window.page.goto("/findings")
        table = window.page.locator("table.findings")
        table.evaluate(_REPEAT)
        assert table.evaluate(_COUNT) >= 36  # as the page opens
        table.evaluate("(table) => table.scrollIntoView()")
        assert table.evaluate(_COUNT) >= 40
        assert axe_violations(window) == []
        assert overflow(window) == []


def test_findings_have_checkboxes_when_they_are_to_be_selected(
    browser: Browser, site: Site
) -> None:
    with opened_for(browser, site, named("account-findings")) as window:
        window.page.set_viewport_size(_WIDE)
        window.page.goto("/findings?state=all")
        one = _first_box(window.page)
        expect(one).to_be_hidden()
        select = window.page.get_by_label("Select", exact=True)
        select.check()
        line = window.page.locator("table.findings tbody tr").first
        unchosen = line.evaluate(_BACKGROUND)
        one.check()
        assert line.evaluate(_BACKGROUND) != unchosen
        assert axe_violations(window) == []
        # What is selected stays in sight.
        select.uncheck()
        expect(one).to_be_visible()
        expect(window.page.get_by_role("group", name="Selected findings")).to_be_visible()
        one.uncheck()
        expect(one).to_be_hidden()


def test_a_title_has_the_room_of_the_range_where_both_dont_fit(
    browser: Browser, site: Site
) -> None:
    with opened_for(browser, site, named("account-findings")) as window:
        shown = {}
        for width in (1440, 1800):
            window.page.set_viewport_size({"width": width, "height": 900})
            window.page.goto("/findings?state=all")
            window.page.locator(".sure").first.evaluate(_ADD_RANGE)
            shown[width] = window.page.locator(".range-of").first.is_visible()
        assert shown == {1440: False, 1800: True}


def test_a_finger_has_checkboxes_at_once(browser: Browser, site: Site) -> None:
    example = named("account-findings")
    with opened_for(browser, site, example, has_touch=True, is_mobile=True) as window:
        window.page.set_viewport_size(_WIDE)
        window.page.goto("/findings?state=all")
        expect(_first_box(window.page)).to_be_visible()
        expect(window.page.get_by_label("Select", exact=True)).to_be_hidden()


def _first_box(page: Page) -> Locator:
    return page.locator("input[name=finding]").first
