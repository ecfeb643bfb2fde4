"""A browser without JavaScript can sign in, upload, and read reports and the dashboard."""

import re

from playwright.sync_api import Browser, expect

from tests.browser.chromium import opened
from tests.browser.site import RICH, Site


def test_routes_models_and_periods_are_explored_without_scripts(
    browser: Browser, site: Site
) -> None:
    cookie = site.cookie(RICH)
    with opened(browser, site.system.base_url, cookie, java_script_enabled=False) as window:
        page = window.page
        page.goto("/spend")
        page.locator("table.spend").get_by_role("link", name="support-bot").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("support-bot")
        hour = page.locator("figure.hours .days > li").nth(5)
        hour.focus()
        expect(hour.locator(".values")).to_contain_text("05:00 to 06:00")
        page.get_by_role("link", name="90d").click()
        page.locator("table.spend").get_by_role("link", name="gpt-5.5").click()
        expect(page).to_have_url(re.compile("model=gpt-5.5&days=90"))
        page.get_by_role("link", name="Compare with the period before").click()
        page.get_by_label("Before, from").fill("2026-01-01")
        page.get_by_label("Before, until").fill("2026-01-31")
        page.get_by_role("button", name="Compare periods").click()
        expect(page.get_by_role("heading", level=2).first).to_contain_text("Jan 31, 2026")
