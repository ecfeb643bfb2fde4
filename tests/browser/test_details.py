"""Details of pages that need JavaScript: filters of a report, file sizes, copy buttons."""

from typing import Final
from urllib.parse import quote_plus

from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.chromium import WIDTHS, opened
from tests.browser.pages import named
from tests.browser.site import RICH, Site
from tests.browser.windows import Windows

NO_MATCH = "No findings match these filters."
PREVIEWS: Final = {
    b"": "usage.jsonl, 0 bytes. This file is empty.",
    b"x": "usage.jsonl, 1 byte.",
    b"x" * 1000: "usage.jsonl, 1,000 bytes.",
    b"x" * 2048: "usage.jsonl, 2 KB.",
}
# The longest label of a button, at the end of a command, in boxes of any width.
_COVERED: Final = """share => {
  const [button, code] = [share.querySelector("button"), share.querySelector("code")]
  button.textContent = "Copy command"
  code.textContent = "-".repeat(50)
  return Array.from({ length: 250 }, (_, at) => 300 + 2 * at).filter((width) => {
    share.style.width = `${width}px`
    const [a, b] = [button.getBoundingClientRect(), code.getBoundingClientRect()]
    return b.right > a.left && b.top < a.bottom
  })
}"""


def test_filters_without_matches_show_a_message_and_a_way_back(windows: Windows) -> None:
    page = windows.show(named("sample")).page
    page.get_by_label("Route or model").fill("no such route")
    expect(page.get_by_text(NO_MATCH)).to_be_visible()
    expect(page.locator("table.list")).to_be_hidden()
    page.locator("#no-match").get_by_role("button", name="Clear filters").click()
    expect(page.get_by_text(NO_MATCH)).to_be_hidden()
    expect(page.locator("article.finding").first).to_be_visible()


def test_filters_are_in_the_url_and_restored_from_it(windows: Windows) -> None:
    page = windows.show(named("sample")).page
    route = page.locator(".finding bdi").first.text_content() or ""  # laid out later
    page.locator("#detector").select_option("d1")
    page.get_by_label("Route or model").fill(route)
    expect(page.locator("form.filters output")).to_contain_text("Showing")
    shared, shown = page.url, _visible_findings(page)
    assert shared.endswith(f"/sample?detector=d1&route={quote_plus(route)}")
    page.goto("/")
    page.goto(shared)
    expect(page.locator("#detector")).to_have_value("d1")
    expect(page.get_by_label("Route or model")).to_have_value(route)
    assert _visible_findings(page) == shown
    page.get_by_role("button", name="Clear filters").first.click()
    page.wait_for_url("**/sample")


def test_unknown_values_in_the_url_leave_the_filters_empty(windows: Windows) -> None:
    page = windows.show(named("sample")).page
    page.goto("/sample?detector=d9&severity=odd&finding_count=3")
    expect(page.get_by_label("Severity")).to_have_value("")
    assert _visible_findings(page)


def _visible_findings(page: Page) -> list[str]:
    findings = page.locator(".finding:not([hidden]), .list tbody tr:not([hidden])")
    return [finding.get_attribute("id") or "" for finding in findings.all()]


def test_the_preview_shows_the_size_of_a_small_file(windows: Windows) -> None:
    page = windows.show(named("upload")).page
    for content, preview in PREVIEWS.items():
        file = {"name": "usage.jsonl", "mimeType": "application/json", "buffer": content}
        page.get_by_label("Log file").set_input_files(file)  # type: ignore[arg-type]
        expect(page.locator("#preview")).to_contain_text(preview)


def test_the_copy_button_leaves_the_link_readable(browser: Browser, site: Site) -> None:
    url, cookie = site.system.base_url, site.cookie(RICH)
    permissions = ["clipboard-read", "clipboard-write"]
    with opened(browser, url, cookie, permissions=permissions) as window:
        window.page.goto(f"/audits/{site.done}")
        window.page.get_by_text("Share this report").click()
        window.page.get_by_role("button", name="Create link").click()
        share = window.page.locator(".copyable")
        for width in WIDTHS:
            window.look(width, "light")
            expect(share.get_by_role("button")).to_be_visible()
            assert not _overlap(share.get_by_role("button"), share.locator("code")), width
        assert share.evaluate(_COVERED) == []


def _overlap(first: Locator, second: Locator) -> bool:
    a, b = first.bounding_box(), second.bounding_box()
    assert a is not None
    assert b is not None
    across = a["x"] < b["x"] + b["width"] and b["x"] < a["x"] + a["width"]
    return across and a["y"] < b["y"] + b["height"] and b["y"] < a["y"] + a["height"]
