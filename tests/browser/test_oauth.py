"""The OAuth flow of a user who decides in Chromium; `test_oauth_live.py` has client libraries."""

import pytest
import requests
from playwright.sync_api import Browser, expect

from tests.browser.chromium import opened
from tests.browser.site import NEW, Site
from tests.service.support.oauth_flow import BACK, Application, add_application, answer_of
from tests.service.support.scenes import add_tenant

AUTHORIZE = "/oauth/authorize"


def _register(site: Site, *redirect_uris: str) -> Application:
    """Somebody's application; nobody of this test's."""
    owner = add_tenant(site.sessions).account_id
    return add_application(site.sessions, owner, *redirect_uris)


def _asked(site: Site, application: Application, **changed: str) -> str:
    """Return the address that an application leads its users to."""
    asked = application.asks(**changed)
    address = requests.Request("GET", f"{site.system.base_url}{AUTHORIZE}", params=asked).prepare()
    assert address.url is not None
    return address.url


@pytest.mark.parametrize(
    ("redirect_uri", "decision"),
    [
        (BACK, "Authorize"),
        ("http://[::1]:9/back", "Cancel"),
        pytest.param("http://localhost:9/back", "Cancel", marks=pytest.mark.stress),
        pytest.param("http://[::1]:9/back", "Authorize", marks=pytest.mark.stress),
        pytest.param("https://[::1]:9/b?", "Cancel", marks=pytest.mark.stress),
        pytest.param(BACK, "Cancel", marks=pytest.mark.stress),
        pytest.param("http://localhost:9/back", "Authorize", marks=pytest.mark.stress),
        pytest.param("https://[::1]:9/b?", "Authorize", marks=pytest.mark.stress),
    ],
)
def test_the_browser_follows_the_answer_to_every_kind_of_address(
    browser: Browser, site: Site, redirect_uri: str, decision: str
) -> None:
    """A Content-Security-Policy that is too narrow would stop it; nobody listens there."""
    application = _register(site, redirect_uri)
    with opened(browser, site.system.base_url, site.cookie(NEW)) as window:
        window.page.goto(_asked(site, application))
        with window.page.expect_request(lambda one: one.url.startswith(redirect_uri)) as sent:
            window.page.get_by_role("button", name=decision).click()
        assert answer_of(sent.value.url)["state"] == application.asks()["state"]


def test_an_address_that_is_not_registered_is_never_gone_to(browser: Browser, site: Site) -> None:
    application = _register(site, "http://127.0.0.1:1/back")
    address = _asked(site, application, redirect_uri="http://127.0.0.1:2/back")
    with opened(browser, site.system.base_url, site.cookie(NEW)) as window:
        answer = window.page.goto(address)
        assert answer is not None
        assert answer.status == requests.codes.bad_request
        expect(window.page.get_by_text("isn't registered for the application")).to_be_visible()
        expect(window.page.get_by_role("button", name="Authorize")).to_have_count(0)
        assert window.foreign_requests == []
