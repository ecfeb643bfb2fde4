"""A notice reaches its target signed, and is retried until it does."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from service.models import NoticeDelivery, NoticeTarget
from service.models.notices.deliveries import post_notice
from service.models.notices.events import REPORT_READY
from service.models.notices.targets import SLACK
from service.models.operations.retention import delete_sent
from service.notices import sending
from service.notices.job import send_notice
from tests.notice_receiver import Receiver, hang, redirect
from tests.worker.support.notices import (
    PAYLOAD,
    add_target_at,
    change,
    disabled_reason,
    row_of,
    state_of,
)


def test_a_webhook_gets_the_event_signed(
    engine: Engine, receiver: Receiver, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    [delivery_id] = post()
    send_notice(delivery_id)
    [received] = receiver.received
    data = Webhook(target.secret).verify(received.body, received.headers)
    assert data["type"] == REPORT_READY
    assert data["data"] == {
        "summary": PAYLOAD["summary"],
        "saved": 12,
        "url": "https://audit.example/audits/a1",
    }
    sent_at = datetime.fromisoformat(data["timestamp"])
    assert abs(datetime.now(UTC) - sent_at) < timedelta(minutes=1)
    assert received.headers["webhook-id"] == row_of(engine, delivery_id).event_id
    with pytest.raises(WebhookVerificationError):
        Webhook(target.secret).verify(received.body + b" ", received.headers)
    assert state_of(engine, delivery_id) == ("delivered", 1, 204, None)
    assert row_of(engine, delivery_id).delivered_at is not None
    send_notice(delivery_id)  # a second wake-up
    assert len(receiver.received) == 1


def test_the_code_of_the_guide_accepts_it_and_nothing_else(
    receiver: Receiver, target: NoticeTarget, post: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    guide = (Path(__file__).parents[3] / "docs" / "api" / "webhooks.md").read_text()
    names: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)[0], names)
    [delivery_id] = post()
    send_notice(delivery_id)
    [received] = receiver.received
    assert names["receive"](target.secret, received.body, received.headers) == 204
    assert str(PAYLOAD["summary"]) in capsys.readouterr().out
    changed = received.body.replace(b"12", b"13")
    assert names["receive"](target.secret, changed, received.headers) == 401


def test_slack_gets_text_that_reads_well_and_mentions_nobody(
    engine: Engine, account_id: str, receiver: Receiver
) -> None:
    add_target_at(engine, account_id, receiver.url("/services/T/B/x"), SLACK)
    payload = {"summary": "<!channel> & <https://evil.example|click>", "path": "/audits/a1"}
    with engine.begin() as connection:
        [delivery_id] = post_notice(connection, account_id, REPORT_READY, payload)
    send_notice(delivery_id)
    [received] = receiver.received
    message = json.loads(received.body)
    assert message["text"] == "Report ready"  # the summary could be a link there
    heading, summary, link = message["blocks"]
    assert heading["text"] == {"type": "mrkdwn", "text": "*Report ready*"}
    shown = {"type": "plain_text", "text": payload["summary"], "emoji": False}
    assert summary["text"] == shown
    [element] = link["elements"]
    assert element["text"] == "<https://audit.example/audits/a1|View in Tallystick>"
    assert element["verbatim"]
    assert "webhook-signature" not in received.headers


def test_slack_is_tried_again_and_disabled_as_a_webhook_is(
    engine: Engine, account_id: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WHOLE_SECONDS", 0.2)
    target = add_target_at(engine, account_id, receiver.url("/services/T/B/x"), SLACK)
    with engine.begin() as connection:
        [delivery_id] = post_notice(connection, account_id, REPORT_READY, PAYLOAD)
    receiver.answers = [500, redirect("http://169.254.169.254/"), hang, 410]
    states = []
    for _ in range(4):
        send_notice(delivery_id)
        states.append(state_of(engine, delivery_id))
        change(engine, delivery_id)
    assert states == [
        ("queued", 1, 500, "RejectedError"),
        ("queued", 2, 302, "RedirectError"),
        ("queued", 3, None, "TimeoutError"),
        ("failed", 4, 410, "GoneError"),
    ]
    assert disabled_reason(engine, target) == "gone"
    assert len(receiver.received) == 4


def test_a_failure_is_followed_by_another_attempt_with_the_same_id(
    engine: Engine, receiver: Receiver, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    receiver.answers = [500, redirect("http://169.254.169.254/"), 404]
    [delivery_id] = post()
    states = []
    for _ in range(4):
        send_notice(delivery_id)
        states.append(state_of(engine, delivery_id))
        send_notice(delivery_id)  # too early: it waits
        change(engine, delivery_id)
    assert states == [
        ("queued", 1, 500, "RejectedError"),
        ("queued", 2, 302, "RedirectError"),
        ("queued", 3, 404, "RejectedError"),
        ("delivered", 4, 204, None),
    ]
    assert len({received.headers["webhook-id"] for received in receiver.received}) == 1
    assert len({received.body for received in receiver.received}) == 1
    assert len(receiver.received) == 4


def test_a_receiver_that_hangs_or_is_away_is_tried_again(
    engine: Engine,
    receiver: Receiver,
    account_id: str,
    post: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "WHOLE_SECONDS", 0.2)
    add_target_at(engine, account_id, receiver.url())
    add_target_at(engine, account_id, "http://127.0.0.1:9/")
    receiver.answers = [hang]
    for delivery_id in post():
        send_notice(delivery_id)
    with Session(engine) as session:
        errors = session.scalars(select(NoticeDelivery.error)).all()
    assert sorted(map(str, errors)) == ["ConnectionRefusedError", "TimeoutError"]


def test_an_event_that_is_posted_twice_is_one(
    engine: Engine, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    assert len(post(dedupe_key="a")) == 1
    assert post(dedupe_key="a") == []
    assert len(post(dedupe_key="b")) == 1
    with engine.begin() as connection, pytest.raises(ValueError, match="nothing.happened"):
        post_notice(connection, target.account_id, "nothing.happened", {})


def test_a_rolled_back_event_is_no_event(
    engine: Engine, account_id: str, target: NoticeTarget
) -> None:
    with engine.connect() as connection:
        [delivery_id] = post_notice(connection, account_id, REPORT_READY, PAYLOAD)
        connection.rollback()
    with Session(engine) as session:
        assert session.get(NoticeDelivery, delivery_id) is None


def test_old_deliveries_go_unless_they_are_still_to_be_sent(
    engine: Engine, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    statuses = ("queued", "sending", "delivered", "failed", "failed")
    ids = [post()[0] for _ in statuses]
    for delivery_id, status in zip(ids, statuses, strict=True):
        change(engine, delivery_id, status=status, queued_at=text("now() - interval '31 days'"))
    change(engine, ids[-1], queued_at=text("now() - interval '29 days'"))
    with engine.begin() as connection:
        assert delete_sent(connection, NoticeDelivery, 30) == 2
        left = connection.scalars(select(NoticeDelivery.status)).all()
    assert sorted(left) == ["failed", "queued", "sending"]
