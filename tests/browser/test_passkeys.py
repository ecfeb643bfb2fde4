"""A passkey from its creation to a sign-in, in Chromium with its virtual authenticator."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import WIDTHS, Window, opened
from tests.browser.measures import axe_violations, overflow
from tests.browser.site import Site, add_link
from tests.browser.states import open_workspace
from tests.worker.support.promises import sampled

AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
_ONLY_HERE = ("recovery-codes", "canceled")


class Owner:
    """One person's browser, with a security key that nobody needs to touch."""

    def __init__(self, window: Window, site: Site, email: str) -> None:
        self.window, self.site, self.page, self.email = window, site, window.page, email
        self._chromium = window.context.new_cdp_session(self.page)
        self._chromium.send("WebAuthn.enable")
        added = self._chromium.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
        self._key = str(added["authenticatorId"])

    def lose_passkey(self) -> None:
        self._chromium.send("WebAuthn.clearCredentials", {"authenticatorId": self._key})

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def look(self, name: str) -> None:
        self.window.shoot(f"passkey-{name}-{self.window.width}")
        assert [*overflow(self.window), *self.window.take_complaints()] == []
        # At the usual width, test_every_page.py shows the other pages to axe-core.
        if name in _ONLY_HERE or self.window.width != WIDTHS[0]:
            assert axe_violations(self.window) == []
        self.window.take_complaints()  # axe breaks the content security policy

    def is_signed_in(self) -> bool:
        return self.page.request.get("/dashboard", max_redirects=0).status == 200

    def open_link(self) -> None:
        """Sign out and open a sign-in link, as far as it leads without a passkey."""
        self.page.goto("/settings")
        open_workspace(self.page)
        self.press("Sign out")
        expect(self.page.get_by_role("heading", name="You're signed out")).to_be_visible()
        token = add_link(self.site.sessions, self.site.secret_key, self.email)
        self.page.goto(f"/auth/verify?token={token}")
        self.press("Sign in")
        self.page.wait_for_url("**/sign-in/passkey")

    def add_passkey(self) -> list[str]:
        """Add one and return the recovery codes."""
        self.page.goto("/settings")
        self.page.get_by_role("link", name="Passkeys").click()
        self.page.get_by_role("button", name="Add a passkey").click()
        self.page.get_by_label("Name").fill("Laptop")
        self.look("add")
        self.press("Continue")
        expect(self.page.get_by_role("heading", name="Save your recovery codes")).to_be_visible()
        self.look("recovery-codes")
        return self.page.locator("code").inner_text().split()


@pytest.mark.parametrize("width", sampled(WIDTHS, 2))
def test_a_sign_in_asks_for_the_passkey(browser: Browser, site: Site, width: int) -> None:
    email, url = f"passkey-{width}@example.org", site.system.base_url
    with opened(browser, url, site.cookie(email), width=width) as window:
        owner = Owner(window, site, email)
        codes = owner.add_passkey()
        assert len(codes) == 10

        owner.open_link()
        owner.look("second-step")
        assert not owner.is_signed_in()
        owner.press("Use your passkey")
        owner.page.wait_for_url("**/dashboard")
        assert owner.is_signed_in()
        owner.page.goto("/settings/passkeys")
        expect(owner.page.get_by_text("Never", exact=True)).to_have_count(0)
        owner.look("list")

        owner.lose_passkey()
        owner.open_link()
        owner.press("Use your passkey")
        expect(owner.page.get_by_text("Nothing happened, or you canceled.")).to_be_visible()
        owner.look("canceled")
        owner.page.get_by_label("Recovery code").fill(codes[0])
        owner.press("Use recovery code")
        owner.page.wait_for_url("**/dashboard")
        assert owner.is_signed_in()
        assert window.foreign_requests == []
