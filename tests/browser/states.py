"""Pages that appear after submitting a form, and the steps to reach them."""

from collections.abc import Callable, Mapping
from typing import Final

from playwright.sync_api import Page

Act = Callable[[Page], None]


def _press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).first.click()


def open_workspace(page: Page) -> None:
    """Open the menu with billing and sign-out; on a phone, it is within another one."""
    opener = page.get_by_role("button", name="Menu", exact=True)
    if opener.is_visible():
        opener.click()
    page.locator(".workspace summary").click()


def ask_for_link(page: Page) -> None:
    page.get_by_label("Email address").fill("somebody@example.org")
    _press(page, "Email me a link")


def mint_key(page: Page) -> None:
    page.get_by_label("Key label").fill("summaries")
    _press(page, "Create ingest key")


def mint_token(page: Page) -> None:
    page.get_by_label("Token label").fill("notebook")
    _press(page, "Create read token")


def mint_token_for_nothing(page: Page) -> None:
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    _press(page, "Create read token")


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


def mistype_webhook(page: Page) -> None:
    page.get_by_label("URL").fill("http://0x7f.1/hook")
    _press(page, "Add")


def share_report(page: Page) -> None:
    page.get_by_text("Share this report").click()
    _press(page, "Create link")


def renew_codes(page: Page) -> None:
    _press(page, "Create new recovery codes")


def mistype_code(page: Page) -> None:
    page.get_by_label("Recovery code").fill("abcd")
    _press(page, "Use recovery code")


def register_application(page: Page) -> None:
    page.get_by_label("Name").fill("Books")
    page.get_by_label("Redirect URIs").fill("https://books.example/back")
    _press(page, "Register")


def allow_nothing(page: Page) -> None:
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    _press(page, "Authorize")


def mistype_address(page: Page) -> None:
    page.get_by_label("Enter your email address").fill("other@example.org")
    _press(page, "Delete account and all data")


def mistype_assumption(page: Page) -> None:
    page.get_by_label("A prompt cache lives for").fill("five minutes")
    _press(page, "Save")


def mistype_terms(page: Page) -> None:
    page.get_by_label("Prices (TOML)").fill("[discounts]\nopenay = 0.1")
    _press(page, "Save prices")


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


# The page, who is on it, what is done there.
STATES: Final[Mapping[str, tuple[str, str, Act]]] = {
    "link-sent": ("/sign-in", "", ask_for_link),
    "new-key": ("/developer", "rich", mint_key),
    "new-token": ("/developer", "rich", mint_token),
    "token-for-nothing": ("/developer", "rich", mint_token_for_nothing),
    "new-application": ("/developer/applications", "rich", register_application),
    "consent-to-nothing": ("/oauth/authorize?{asked}", "rich", allow_nothing),
    "new-recovery-codes": ("/settings/passkeys", "rich", renew_codes),
    "wrong-recovery-code": ("/sign-in/passkey", "pending", mistype_code),
    "new-report-link": ("/audits/{done}", "rich", share_report),
    "new-webhook": ("/settings/notices/add", "leaving", add_webhook),
    "webhook-mistyped": ("/settings/notices/add", "rich", mistype_webhook),
    "delete-mistyped": ("/settings/delete", "rich", mistype_address),
    "assumption-mistyped": ("/settings/assumptions", "rich", mistype_assumption),
    "terms-mistyped": ("/settings/prices", "rich", mistype_terms),
    "error-403": ("/developer", "rich", send_old_form),
    "signed-out": ("/settings", "leaving", sign_out),
    "asked-to-pay": ("/upload", "new", send_without_credit),
}
