"""What a label can do in a notice and in a mail about spend: nothing."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from service.config import Config
from service.mail.messages import compose
from service.models import Mail, NoticeDelivery, NoticeTarget
from service.models.notices.events import UNUSUAL_SPEND
from service.models.notices.targets import SLACK, TARGET_DISABLED, WEBHOOK, new_signing_secret
from service.models.watching.news import SPEND_NOTICE
from service.notices.messages import write_message
from service.operations.watching.unusual_days import Band, UnusualSpend
from service.operations.watching.wording import describe_day
from tests.cases import each_case
from tests.detectors.hostile_links import LINKS

NOW = datetime(2026, 11, 24, 9, tzinfo=UTC)
SITE = "https://audit.example"


def notice(kind: str, **payload: Any) -> NoticeDelivery:
    target = NoticeTarget(kind=kind, url="https://hooks.example/a", secret=new_signing_secret())
    event = {"event_id": "evt_1", "event_type": UNUSUAL_SPEND, "payload": payload}
    return NoticeDelivery(target=target, created_at=NOW, **event)


def body_of(delivery: NoticeDelivery) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(write_message(delivery, SITE, NOW)[1])
    return found


def unusual(route: str) -> dict[str, Any]:
    band = Band(expected=Decimal(10), upper=Decimal(20))
    found = UnusualSpend(scope="route", name=route, usd=Decimal(90), band=band)
    return describe_day(date(2026, 11, 23), [found])


@each_case("label", LINKS)
def test_slack_can_make_no_link_of_a_label(label: str) -> None:
    for summary in (unusual(label)["summary"], f"Route “{label}” cost $90."):
        message = body_of(notice(SLACK, summary=summary, path="/spend"))
        assert label not in message["text"]
        [shown] = [
            block["text"]
            for block in message["blocks"]
            if block["type"] == "section" and block["text"]["type"] != "mrkdwn"
        ]
        assert shown == {"type": "plain_text", "text": summary, "emoji": False}
        rest = [block for block in message["blocks"] if block.get("text") != shown]
        assert label not in json.dumps(rest, ensure_ascii=False).replace(SITE, "")


def test_a_notification_of_slack_has_the_summary_without_mentions() -> None:
    message = body_of(notice(SLACK, summary="Route “<!here> & co” cost $90."))
    assert message["text"] == "Unusual spend: Route “&lt;!here&gt; &amp; co” cost $90."


@each_case("label", LINKS)
def test_a_webhook_gets_the_label_as_data_and_not_in_the_sentence(label: str) -> None:
    data = body_of(notice(WEBHOOK, **unusual(label)))["data"]
    assert data["series"][0]["name"] == label
    assert label not in data["summary"]
    assert data["summary"].startswith("A route cost $90.00")


@each_case("label", LINKS)
def test_a_mail_program_can_make_no_link_of_a_label(config: Config, label: str) -> None:
    mail = {"id": "m", "recipient": "ada@example.org", "created_at": NOW}
    disabled = {"kind": WEBHOOK, "label": label, "host": "hooks.test", "reason": "gone"}
    budget = {"route": label, "month": "2026-11-01", "amount_usd": "10", "spend_usd": "9"}
    spend = {"days": [], "budgets": [{**budget, "forecast_usd": None}]}
    for kind, parameters in ((TARGET_DISABLED, disabled), (SPEND_NOTICE, spend)):
        written = Mail(**mail, kind=kind, parameters=parameters)
        message = compose(replace(config, base_url="http://localhost:8000"), written)
        for part in ("plain", "html"):
            body = message.get_body((part,))
            assert body is not None
            assert label not in body.get_content()
        assert label not in message["Subject"]
