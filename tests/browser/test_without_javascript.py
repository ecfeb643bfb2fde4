"""A browser without JavaScript can sign in, upload, and read reports and the dashboard."""

import re
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import ROOT, opened
from tests.browser.site import RICH, Site
from tests.browser.states import open_workspace
from tests.browser.walk import Walk
from tests.service.support.uploads import log_file


@pytest.mark.stress
def test_a_new_user_finds_the_way_without_scripts(
    browser: Browser, site: Site, tmp_path: Path
) -> None:
    """By default, the pages below, and the forms of tests/service/web/pages."""
    url = site.system.base_url
    with opened(browser, url, java_script_enabled=False) as window:
        page, walk = window.page, Walk(window, site, tmp_path, name="no-scripts")
        walk.sign_in()
        expect(page.get_by_role("button", name="Upload and audit")).to_be_disabled()
        expect(page.get_by_text("Get a credit first.")).to_be_visible()
        link = page.get_by_role("button", name="Buy with Stripe").get_attribute("href")
        assert link is not None
        walk.pay(walk.account_in(link))
        _send(walk, log_file(2) + log_file(1, messages=[{"content": "CANARY"}]))
        expect(page.get_by_role("alert")).to_contain_text("line 3")
        expect(page.get_by_role("alert")).to_contain_text("messages")
        expect(page.get_by_text("You have 2 credits left")).to_be_visible()
        assert "CANARY" not in page.content()
        page.get_by_label("Label (optional)").fill("October, EU")
        _send(walk, (ROOT / "examples" / "sample-usage.jsonl").read_bytes())
        page.wait_for_url("**/audits/*")
        expect(page.get_by_role("heading", level=1)).to_contain_text("/month")
        page.get_by_text("Data", exact=True).first.click()
        expect(page.locator("details table").first).to_be_visible()
        page.locator("details.evidence summary").first.click()
        page.locator("details.evidence a").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("^Finding"))
        page.goto("/dashboard")
        page.get_by_role("link", name="Imports", exact=True).click()
        expect(page.get_by_role("link", name="October, EU")).to_be_visible()
        page.get_by_label("Status").select_option("failed")
        page.get_by_role("button", name="Apply filters").click()
        expect(page.get_by_text("No imports match these filters")).to_be_visible()
        open_workspace(page)
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("You're signed out")


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


def _send(walk: Walk, content: bytes) -> None:
    path = walk.folder / f"{uuid4().hex}.jsonl"
    path.write_bytes(content)
    walk.page.get_by_label("Log file").set_input_files(path)
    walk.press("Upload and audit")
