"""The steps of a new user from the landing page to a revoked key."""

import re
from io import BytesIO
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from playwright.sync_api import expect

from tests.browser.chromium import ROOT, SCHEMES, TAKES_SCREENSHOTS, Scheme, Window
from tests.browser.site import Site
from tests.lazily import pypdf
from tests.service.payments import stripe_events
from tests.service.support.uploads import log_file
from tests.worker.support.mailing import post, wait_for_links

FILE: Final = "usage.jsonl"
# Large enough for its sending to be seen.
LOG: Final = (ROOT / "examples" / "sample-usage.jsonl").read_bytes()
_BYTES_A_SECOND: Final = 1_000_000


_WATCH_PROGRESS: Final = """() => {
  const words = document.querySelector("#sent-words");
  const tell = () => window.tellProgress(words.textContent);
  const changes = { childList: true, characterData: true, subtree: true };
  new MutationObserver(tell).observe(words, changes);
}"""


class Walk:
    """One person on the way, and the pictures that are taken of it in both schemes."""

    def __init__(
        self, window: Window, site: Site, folder: Path, *, name: str, scheme: Scheme = "light"
    ) -> None:
        self.window, self.site, self.page = window, site, window.page
        self.folder, self.name, self.scheme = folder, name, scheme
        self.email = f"{uuid4().hex[:8]}@example.org"
        self._pictures = 0

    def shoot(self, name: str) -> None:
        if not TAKES_SCREENSHOTS:
            return
        self._pictures += 1
        for scheme in sorted(SCHEMES, key=lambda one: one == self.scheme):  # theirs comes last
            self.page.emulate_media(color_scheme=scheme)
            look = f"{self.window.width}-{scheme}"
            self.window.shoot(f"{self.name}-{look}-{self._pictures:02d}-{name}")

    def press(self, name: str | re.Pattern[str]) -> None:
        self.page.get_by_role("button", name=name).first.click()

    # The steps

    def sign_in(self) -> None:
        page = self.page
        page.goto("/")
        self.shoot("landing")
        self.page.get_by_role("button", name="Audit a log file").click()
        self.page.get_by_role("button", name="Sign in to upload").click()
        page.get_by_label("Email address").fill(self.email)
        self.shoot("sign-in")
        self.press("Email me a link")
        expect(page.get_by_text("We sent you a sign-in link")).to_be_visible()
        self.shoot("link-sent")
        page.goto(self.mailed_link())
        page.wait_for_url("**/upload")

    def mailed_link(self) -> str:
        wait_for_links(self.site.sink, self.email, 1)
        part = self.site.sink.mails_to(self.email)[-1].get_body(("plain",))
        assert part is not None
        [link] = [line for line in part.get_content().splitlines() if "/auth/verify" in line]
        assert link.startswith(self.site.system.base_url)
        return str(link)

    def send(self, content: bytes) -> None:
        self.choose(content)
        self.shoot("chosen")
        self.press("Upload and audit")

    def choose(self, content: bytes) -> None:
        path = self.folder / FILE
        path.write_bytes(content)
        self.page.get_by_label("Log file").set_input_files(path)
        expect(self.page.locator("#preview")).to_contain_text(FILE)

    def find_payment_links(self) -> str:
        """Returns the account that the buttons name to the shop."""
        self.choose(log_file())
        expect(self.page.get_by_role("button", name="Upload and audit")).to_be_disabled()
        expect(self.page.get_by_text("Get a credit first.")).to_be_visible()
        self.shoot("chosen")
        shops = self.page.get_by_role("button", name=re.compile("^Buy with"))
        expect(shops).to_have_count(2)
        expect(shops.first).to_have_text("Buy with Stripe")
        self.shoot("asked-to-pay")
        link = shops.first.get_attribute("href")
        assert link is not None
        return self.account_in(link)

    def account_in(self, link: str) -> str:
        [account_id] = parse_qs(urlsplit(link).query)["client_reference_id"]
        return account_id

    def pay(self, account_id: str) -> None:
        """As the shop does: two credits, of which one is never used."""
        for _ in range(2):
            document = stripe_events.checkout(client_reference_id=account_id)
            body, headers = stripe_events.signed(document)
            assert post(self.site.system, stripe_events.PATH, headers, data=body).status_code == 200
        self.page.goto("/upload")
        expect(self.page.get_by_text("You have 2 credits left")).to_be_visible()
        expect(self.page.locator("#buy")).to_be_hidden()
        self.shoot("paid")

    def be_refused_text(self) -> None:
        """The page names the line and the field, and doesn't send the file."""
        text = log_file(2) + log_file(1, messages=[{"role": "user", "content": "CANARY"}])
        self.choose(text)
        expect(self.page.locator("#preview")).to_contain_text("Line 3 contains text in “messages”")
        expect(self.page.get_by_role("button", name="Upload and audit")).to_be_disabled()
        assert "CANARY" not in self.page.content()
        self.shoot("refused")
        self.page.reload()
        expect(self.page.get_by_text("You have 2 credits left")).to_be_visible()

    def upload(self) -> str:
        """With its progress, then that of the audit; returns the report's address."""
        self.site.system.delay_audits(2.0)
        seen: list[str] = []
        self.page.expose_function("tellProgress", lambda words: seen.append(words))
        self.page.evaluate(_WATCH_PROGRESS)
        self.slow_down(_BYTES_A_SECOND)
        self.send(LOG)
        expect(self.page.locator("#sending")).to_be_visible()
        expect(self.page.locator("#sent-words")).to_contain_text("% of")
        self.shoot("sending")
        self.page.wait_for_url("**/audits/*")
        self.slow_down(-1)
        assert len({one for one in seen if one.endswith("MB")}) >= 3, seen
        expect(self.page.get_by_role("heading", level=1)).to_have_text("Your audit is in progress")
        step = self.page.locator("[aria-current=step]")
        expect(step).to_have_text(re.compile("Validating|Auditing"))
        self.shoot("under-way")
        # The page changes automatically, without a reload by the user.
        expect(self.page.get_by_role("heading", level=1)).to_contain_text("You could save")
        (self.site.system.control / "delay").unlink()
        self.shoot("report")
        return self.page.url

    def slow_down(self, bytes_per_second: int) -> None:
        """The way to the service as slow as a line at home."""
        session = self.window.context.new_cdp_session(self.page)
        conditions = {"offline": False, "latency": 0, "downloadThroughput": -1}
        conditions["uploadThroughput"] = bytes_per_second
        session.send("Network.emulateNetworkConditions", conditions)

    def read_report(self) -> None:
        """As its owner, then as anybody who was given the link, then as PDF."""
        page = self.page
        headline = page.get_by_role("heading", level=1).inner_text()
        page.get_by_text("Share this report").click()
        page.get_by_role("button", name="Create link").click()
        link = page.locator(".copyable code").first.inner_text()
        assert link.startswith(f"{self.site.system.base_url}/r/")
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_have_text(headline)
        self.shoot("shared-report")
        button = page.get_by_role("button", name="Download PDF")
        with page.expect_response(lambda answer: answer.url.endswith("/pdf")) as answered:
            button.click()
        assert answered.value.headers["content-type"] == "application/pdf"
        reader = pypdf.PdfReader(
            BytesIO(self.window.context.request.get(answered.value.url).body())
        )
        words = " ".join(reader.pages[0].extract_text().split())
        assert " ".join(headline.split()) in words

    def subscribe(self) -> None:
        """Ingest keys come with a plan."""
        customer = stripe_events.customer("cus_" + self.email, self.email)
        plan = stripe_events.subscription("created", "active", reference=self.email)
        for document in (customer, plan):
            body, headers = stripe_events.signed(document)
            assert post(self.site.system, stripe_events.PATH, headers, data=body).status_code == 200

    def mint_a_key(self) -> str:
        """Create a key and return the command that the page offers to copy."""
        self.page.goto("/developer")
        self.page.get_by_label("Key label").fill("billing service")
        self.press("Create ingest key")
        expect(self.page.get_by_role("heading", level=1)).to_have_text("Your new ingest key")
        self.shoot("new-key")
        return self.page.locator(".copyable code").last.inner_text()

    def see_the_run(self, audit_id: str) -> None:
        self.page.goto(f"/audits/{audit_id}")
        expect(self.page.locator("main")).to_contain_text("API batch")
        self.shoot("run")

    def revoke(self) -> None:
        self.page.goto("/developer")
        self.shoot("keys")
        self.page.get_by_role("button", name="Revoke the key billing service").click()
        expect(self.page.get_by_text("0 of 5 keys")).to_be_visible()
        self.shoot("revoked")
