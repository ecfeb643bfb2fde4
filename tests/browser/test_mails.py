"""Emails fit a phone, have short lines on a desk, and can be read in both schemes."""

from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any, Final

import pytest
from playwright.sync_api import Browser

from service.config import Config
from service.mail.messages import SIGN_IN, compose
from service.models import Mail
from service.models.mail.report_mails import WEEKLY_DIGEST
from tests.browser.chromium import SCHEMES
from tests.browser.measures import AXE

_BUDGET: Final = {"route": "a-service-with-a-name-of-its-own-" * 3, "month": "2026-03-01"}
_AMOUNTS: Final = {"amount_usd": "150", "spend_usd": "53.33", "forecast_usd": None}
_WEEK: Final[dict[str, Any]] = {
    **{"first": "2026-02-23", "last": "2026-03-01", "whose": "Berlin time", "has_utc_days": True},
    **{"spend_usd": "161.42", "previous_usd": "140.11", "plan_calls": 312, "plan_value_usd": "41"},
    **{"new": 2, "returned": 1, "fixed": 1, "realized_usd": "12", "realized_total_usd": "64"},
    "findings": [{"detector": "d4_duplicate_calls", "monthly_usd": "8", "confidence": "ESTIMATED"}],
    "budgets": [{**_BUDGET, **_AMOUNTS}],
}
_CONTRAST: Final = """() => axe.run(document, { runOnly: ["color-contrast"] })
  .then(({ violations }) => violations.flatMap((each) => each.nodes.map((one) => one.html)))"""


@pytest.mark.parametrize(
    ("kind", "parameters"), [(SIGN_IN, {"link_id": "abc"}), (WEEKLY_DIGEST, _WEEK)]
)
def test_a_mail_fits_and_has_contrast(
    browser: Browser, kind: str, parameters: dict[str, Any]
) -> None:
    config = Config(
        secret_key="a secret key for tests, 32 or longer",
        database_url="postgresql://nowhere",
        redis_url="redis://nowhere",
        storage_url="file:///nowhere",
    )
    at = datetime(2026, 3, 2, tzinfo=UTC)
    given = {"id": "0123", "kind": kind, "recipient": "ada@example.org", "created_at": at}
    part = compose(config, Mail(**given, parameters=parameters)).get_body(("html",))
    assert isinstance(part, EmailMessage)
    for scheme in SCHEMES:
        context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        page.set_content(part.get_content())
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.evaluate(AXE)
        assert page.evaluate(_CONTRAST) == []
        page.set_viewport_size({"width": 1280, "height": 800})
        assert page.locator(".card").bounding_box()["width"] <= 560  # type: ignore[index]
        context.close()
