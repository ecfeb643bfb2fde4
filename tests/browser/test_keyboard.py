"""Everything that works with a mouse works with a keyboard, and the focus is visible."""

from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import named
from tests.browser.windows import Windows
from tests.cases import data_of
from tests.worker.support.promises import sampled

MAIN: Final = tuple(data_of(__file__)["main"])
# What takes the focus, as far as it is shown. Of radio buttons one stands for all, and so does one
# day of a chart: the arrow keys go to the others.
_MARK: Final = """() => {
  const fields = "input:not([type=hidden]), select, textarea";
  const kinds = `a[href], button, summary, [tabindex='0'], ${fields}`;
  const groups = new Set();
  const wanted = [...document.querySelectorAll(kinds)].filter((one) => {
    if (one.disabled || one.tabIndex < 0) return false;
    if (!one.checkVisibility({ visibilityProperty: true })) return false;
    if (one.type !== "radio") return true;
    const group = [...document.getElementsByName(one.name)].some((other) => other.checked);
    if (group ? !one.checked : groups.has(one.name)) return false;
    groups.add(one.name);
    return true;
  });
  wanted.forEach((one, place) => { one.dataset.place = place; });
  return wanted.map((one) => `${one.nodeName} ${one.name || one.textContent.trim().slice(0, 40)}`);
}"""
# Where the focus is, and whether something is drawn around it that was not there before.
_FOCUSED: Final = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const looks = () => {
    const { outlineStyle, outlineWidth, outlineColor, boxShadow } = getComputedStyle(one);
    return { outlineStyle, outlineWidth, outlineColor, boxShadow };
  };
  const { outlineStyle, outlineWidth, outlineColor, boxShadow } = looks();
  const box = one.getBoundingClientRect();
  const drawn = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
  return {
    place: one.dataset.place,
    seen: (drawn && !/, 0\\)$/.test(outlineColor)) || boxShadow !== "none",
    within: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}"""


@pytest.mark.parametrize("name", sampled(MAIN, 8))
def test_tab_reaches_everything_and_shows_where_it_is(windows: Windows, name: str) -> None:
    page = windows.show(named(name)).page
    wanted: list[str] = page.evaluate(_MARK)
    reached: dict[int, dict[str, Any]] = {}
    # What is laid out only when somebody comes to it may be passed over while it is; anyone who
    # goes on comes to it the next time round.
    for _ in range(3):
        met = _walk(page, len(wanted))
        reached |= {int(one["place"]): one for one in met if one["place"]}
        if len(reached) == len(wanted):
            break
    assert [wanted[place] for place in set(range(len(wanted))) - set(reached)] == []
    assert [wanted[place] for place, one in reached.items() if not one["seen"]] == []
    assert [wanted[place] for place, one in reached.items() if not one["within"]] == []


def _walk(page: Page, count: int) -> list[dict[str, Any]]:
    """Where the focus was after each press of the key."""
    met = []
    for _ in range(count + 2):
        page.keyboard.press("Tab")
        focused = page.evaluate(_FOCUSED)
        if focused is None:
            break
        met.append(focused)
    return met


def test_the_first_key_leads_past_the_navigation(windows: Windows) -> None:
    page = windows.show(named("sign-in")).page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Email address")).to_be_focused()


def test_a_fold_opens_and_a_filter_filters_by_keys_alone(windows: Windows) -> None:
    page = windows.show(named("sample")).page
    fold = page.locator("details.evidence").first
    fold.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(fold.locator("table")).to_be_visible()
    page.get_by_label("Severity").focus()
    page.keyboard.type("Low")
    expect(page.locator("form.filters output")).to_contain_text("Showing")


def test_a_file_is_sent_by_keys_alone(windows: Windows) -> None:
    page = windows.show(named("upload")).page
    field = page.get_by_label("Log file")
    # To wait for a file chooser, Playwright asks the browser not to open it. On a busy machine, a
    # key that follows at once can be faster.
    with page.expect_file_chooser() as choosing:
        field.focus()
        expect(field).to_be_focused()
        page.keyboard.press("Space")
    # The preview leaves the rows of exports to the service.
    call = b'{"call_type": "acompletion", "request_id": "1", "startTime": "today", "model": "m"}\n'
    choosing.value.set_files({"name": "x.jsonl", "mimeType": "text/plain", "buffer": call})
    expect(page.get_by_text("x.jsonl, 84 bytes")).to_be_visible()
    page.get_by_role("button", name="Upload and audit").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("no credit was used")


def test_arrow_keys_move_between_the_days_of_a_chart_and_choose_a_range(windows: Windows) -> None:
    page = windows.show(named("dashboard")).page
    days = page.locator("figure[data-range] .days > li")
    last = days.last.locator("a")
    last.focus()
    expect(days.last.locator(".values")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Shift+ArrowLeft")
    expect(page.locator(".days > li.picked")).to_have_count(3)
    chosen = [days.nth(at).get_attribute("data-from") for at in (-4, -2)]
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/dashboard?from={chosen[0]}&to={chosen[1]}")


def test_the_palette_opens_by_its_keys_and_goes_where_it_says(windows: Windows) -> None:
    page = windows.show(named("dashboard")).page
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("support-b")
    option = page.get_by_role("option", name="support-bot Route")
    expect(option).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url("**/route?route=support-bot")
