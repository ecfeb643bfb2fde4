"""Emails fit a phone, have short lines on a desk, and can be read in both schemes."""

from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any, Final

import pytest
from playwright.sync_api import Browser

from service.config import Config
from service.mail.messages import KINDS, SIGN_IN, compose
from service.mail.security_notice import SECURITY_NOTICE
from service.models import Mail
from service.models.connections.failures import CONNECTION_FAILING
from service.models.identity.security_events import EventKind
from service.models.mail.report_mails import REPORT_DIGEST, REPORT_READY, WEEKLY_DIGEST
from service.models.notices.targets import TARGET_DISABLED
from service.models.watching.news import SPEND_NOTICE
from tests.browser.chromium import SCHEMES
from tests.browser.measures import AXE

# Labels are names of code, without a place to break a line.
_LABEL: Final = "customer_support_ticket_classification_pipeline_production"
_BUDGET: Final = {
    **{"route": _LABEL, "month": "2026-03-01", "amount_usd": "150", "spend_usd": "53.33"},
    "forecast_usd": None,
}
_FINDING: Final = {"what": "Cache the prompt", "saving": "$8/month", "where": _LABEL}
_DAYS: Final = {"whose": "Berlin time", "has_utc_days": True, "budgets": [_BUDGET]}
_DAY: Final = {"day": "2026-03-01", "spend_usd": "9", "expected_usd": "3"}
_AT: Final = "2026-03-01T12:00:00+00:00"
_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    SIGN_IN: {"link_id": "abc"},
    REPORT_READY: {
        **{"audit_id": "0123", "sentence": "You could save $8/month.", "is_last": True},
        **{"findings": [_FINDING, _FINDING], "more": 1},
    },
    REPORT_DIGEST: {
        **{"since": "2026-02-28", "day": "2026-03-01", "audits": 2, "records": 5, "spend_usd": "5"},
        "listed": [
            {"audit_id": "0123", "finished_at": _AT, "findings": 1, "savings_usd": "3"}
            | {"records": 5, "spend_usd": "5"}
        ],
    },
    SECURITY_NOTICE: {
        **{"event": EventKind.PASSKEY_ADDED, "occurred_at": _AT},
        **{"browser": "Firefox on Linux", "subject": _LABEL},
    },
    TARGET_DISABLED: {"kind": "webhook", "label": _LABEL, "host": _LABEL, "reason": "gone"},
    CONNECTION_FAILING: {"label": _LABEL, "provider": "OpenAI", "reason": "revoked", "since": _AT},
    SPEND_NOTICE: {**_DAYS, "days": [_DAY | {"routes": 1, "models": 2}]},
    WEEKLY_DIGEST: {
        **{"first": "2026-02-23", "last": "2026-03-01", "plan_calls": 312, "plan_value_usd": "41"},
        **{"spend_usd": "161.42", "previous_usd": "140.11", "new": 2, "returned": 1, "fixed": 1},
        **{"realized_usd": "12", "realized_total_usd": "64", **_DAYS},
        "findings": [
            {"detector": "d4_duplicate_calls", "monthly_usd": "8", "confidence": "ESTIMATED"}
        ],
    },
}
_CONTRAST: Final = """() => axe.run(document, { runOnly: ["color-contrast"] })
  .then(({ violations }) => violations.flatMap((each) => each.nodes.map((one) => one.html)))"""


@pytest.fixture(scope="module")
def html_of() -> dict[str, str]:
    config = Config(
        secret_key="a secret key for tests, 32 or longer",
        database_url="postgresql://nowhere",
        redis_url="redis://nowhere",
        storage_url="file:///nowhere",
    )
    at = datetime(2026, 3, 2, tzinfo=UTC)
    given: dict[str, Any] = {"id": "0123", "recipient": "ada@example.org", "created_at": at}
    written = dict[str, str]()
    for kind in KINDS:
        mail = Mail(**given, kind=kind, parameters=_PARAMETERS[kind])
        part = compose(config, mail).get_body(("html",))
        assert isinstance(part, EmailMessage)
        written[kind] = part.get_content()
    return written


def test_each_mail_fits_and_its_findings_have_numbers(
    browser: Browser, html_of: dict[str, str]
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    widths, on_desks = dict[str, int](), dict[str, float]()
    for kind, html in html_of.items():
        page.set_content(html)
        widths[kind] = page.evaluate("document.documentElement.scrollWidth")
        page.set_viewport_size({"width": 1280, "height": 800})
        on_desks[kind] = page.evaluate("document.querySelector('.card').offsetWidth")
        page.set_viewport_size({"width": 390, "height": 800})
    page.set_content(html_of[REPORT_READY])
    findings = page.locator("ol li").all_inner_texts()
    context.close()
    assert widths == dict.fromkeys(KINDS, 390)
    assert on_desks == dict.fromkeys(KINDS, 560)
    assert [each[:2] for each in findings] == ["1.", "2."]


@pytest.mark.parametrize("kind", [SIGN_IN, WEEKLY_DIGEST])
def test_a_mail_has_contrast(browser: Browser, html_of: dict[str, str], kind: str) -> None:
    for scheme in SCHEMES:
        context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        page.set_content(html_of[kind])
        page.evaluate(AXE)
        assert page.evaluate(_CONTRAST) == []
        context.close()
