"""Pages that appear after submitting a form, and the steps to reach them."""

from collections.abc import Callable, Mapping
from typing import Final

from playwright.sync_api import Page

Act = Callable[[Page], None]


def _press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).first.click()


def _send(button: str, fields: Mapping[str, str] | None = None, *, unchecks: bool = False) -> Act:
    """Fill a form's fields in by their labels, uncheck its boxes or not, and press the button."""

    def act(page: Page) -> None:
        for label, value in (fields or {}).items():
            page.get_by_label(label).fill(value)
        for box in page.get_by_role("checkbox").all() if unchecks else ():
            box.uncheck()
        _press(page, button)

    return act


def open_workspace(page: Page) -> None:
    """Open the menu with billing and sign-out; on a phone, it is within another one."""
    opener = page.get_by_role("button", name="Menu", exact=True)
    if opener.is_visible():
        opener.click()
    page.locator(".workspace summary").click()


def ask_for_link(page: Page) -> None:
    page.get_by_label("Email address").fill("somebody@example.org")
    _press(page, "Email me a link")


_REMOVE_TARGETS: Final = """async () => {
  const text = await (await fetch("/settings/notices")).text();
  const page = new DOMParser().parseFromString(text, "text/html");
  for (const form of page.querySelectorAll("form[action$='/remove']"))
    await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
}"""


def add_webhook(page: Page) -> None:
    page.evaluate(_REMOVE_TARGETS)  # those of earlier tests: an account has few
    page.get_by_label("URL").fill("http://127.0.0.1:9/hook")
    page.get_by_label("Name").fill("Spend bot")
    _press(page, "Add")


def share_report(page: Page) -> None:
    page.get_by_text("Share this report").click()
    _press(page, "Create link")


def send_old_form(page: Page) -> None:
    page.evaluate(
        "() => document.querySelectorAll('[name=csrf_token]').forEach((one) => {"
        " one.value = 'old' })"
    )
    _press(page, "Create read token")


def sign_out(page: Page) -> None:
    open_workspace(page)
    _press(page, "Sign out")


def send_without_credit(page: Page) -> None:
    """As a browser without JavaScript does."""
    page.get_by_label("Log file").set_input_files(
        {"name": "usage.jsonl", "mimeType": "application/json", "buffer": b"{}"}
    )
    page.evaluate("() => document.querySelector('#upload').submit()")


_BOOKS: Final = {"Name": "Books", "Redirect URIs": "https://books.example/back"}
# The page, who is on it, what is done there.
STATES: Final[Mapping[str, tuple[str, str, Act]]] = {
    "link-sent": ("/sign-in", "", ask_for_link),
    "new-key": ("/developer", "rich", _send("Create ingest key", {"Key label": "summaries"})),
    "new-token": ("/developer", "rich", _send("Create read token", {"Token label": "notebook"})),
    "token-for-nothing": ("/developer", "rich", _send("Create read token", unchecks=True)),
    "new-application": ("/developer/applications", "rich", _send("Register", _BOOKS)),
    "consent-to-nothing": ("/oauth/authorize?{asked}", "rich", _send("Authorize", unchecks=True)),
    "new-recovery-codes": ("/settings/passkeys", "rich", _send("Create new recovery codes")),
    "wrong-recovery-code": (
        "/sign-in/passkey",
        "pending",
        _send("Use recovery code", {"Recovery code": "abcd"}),
    ),
    "new-report-link": ("/audits/{done}", "rich", share_report),
    "new-webhook": ("/settings/notices/add", "leaving", add_webhook),
    "webhook-mistyped": (
        "/settings/notices/add",
        "rich",
        _send("Add", {"URL": "http://0x7f.1/hook"}),
    ),
    "delete-mistyped": (
        "/settings/delete",
        "rich",
        _send("Delete account and all data", {"Enter your email address": "other@example.org"}),
    ),
    "assumption-mistyped": (
        "/settings/assumptions",
        "rich",
        _send("Save", {"A prompt cache lives for": "five minutes"}),
    ),
    "terms-mistyped": (
        "/settings/prices",
        "rich",
        _send("Save prices", {"Prices (TOML)": "[discounts]\nopenay = 0.1"}),
    ),
    "error-403": ("/developer", "rich", send_old_form),
    "signed-out": ("/settings", "leaving", sign_out),
    "asked-to-pay": ("/upload", "new", send_without_credit),
}
