"""A notice is delivered at least once with one ID, over failures, kills and a day; or given up."""

import io
import json
import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import Engine, delete, select, text, update
from sqlalchemy.orm import Session
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from service.config import Config
from service.core.logs import configure_logging
from service.jobs.queues import AuditQueues
from service.mail.messages import compose
from service.models import Account, Mail, NoticeDelivery, NoticeTarget
from service.models.mail.outbox import claim_mail
from service.models.notices.attempts import list_due_deliveries
from service.models.notices.deliveries import post_notice, resend_delivery
from service.models.notices.events import REPORT_READY
from service.models.notices.targets import (
    SLACK,
    WEBHOOK,
    NewTarget,
    add_target,
    enable_target,
)
from service.models.operations.retention import delete_old_deliveries
from service.notices import sending
from service.notices.job import send_notice
from service.notices.sweep import sweep_notices
from tests.notice_receiver import Handler, Receiver, hang, redirect, running_receiver
from tests.worker.support.promises import Note, at_a_fortieth, scaled

CANARY = "canary-7f3a"
PAYLOAD = {"summary": f"You could save $12/month. {CANARY}", "path": "/audits/a1", "saved": 12}


@pytest.fixture
def config(config: Config, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("NOTICES_PRIVATE_TARGETS", "on")
    monkeypatch.setenv("BASE_URL", "https://audit.example")
    return Config.load()


@pytest.fixture(scope="module")
def module_receiver() -> Iterator[Receiver]:
    with running_receiver() as receiver:
        yield receiver


@pytest.fixture
def receiver(module_receiver: Receiver) -> Receiver:
    module_receiver.reset()
    return module_receiver


@pytest.fixture
def account_id(engine: Engine) -> Iterator[str]:
    with Session(engine) as session:
        account = Account(email="notices@example.com")
        session.add(account)
        session.commit()
        account_id = account.id
    yield account_id
    with engine.begin() as connection:
        connection.execute(delete(Account).where(Account.id == account_id))


@pytest.fixture
def target(engine: Engine, account_id: str, receiver: Receiver) -> NoticeTarget:
    return _add_target(engine, account_id, receiver.url(f"/{CANARY}?token={CANARY}"))


def _add_target(engine: Engine, account_id: str, url: str, kind: str = WEBHOOK) -> NoticeTarget:
    with Session(engine, expire_on_commit=False) as session:
        target = add_target(session, account_id, NewTarget(kind, url, [REPORT_READY]))
        session.commit()
        return target


@pytest.fixture
def post(engine: Engine, account_id: str) -> Callable[..., list[str]]:
    def post(**options: Any) -> list[str]:
        with engine.begin() as connection:
            return list(post_notice(connection, account_id, REPORT_READY, PAYLOAD, **options))

    return post


def _row(engine: Engine, delivery_id: str) -> NoticeDelivery:
    with Session(engine) as session:
        return session.get_one(NoticeDelivery, delivery_id)


def _change(engine: Engine, delivery_id: str, **values: Any) -> None:
    """Change the row, as time would; and let the target be tried again."""
    with engine.begin() as connection:
        named = update(NoticeDelivery).where(NoticeDelivery.id == delivery_id)
        connection.execute(named.values(**{"next_attempt_at": text("now()"), **values}))
        connection.execute(update(NoticeTarget).values(resume_at=text("now()")))


def _state(engine: Engine, delivery_id: str) -> tuple[str, int, int | None, str | None]:
    row = _row(engine, delivery_id)
    return row.status, row.attempts, row.status_code, row.error


def _sweep(config: Config, engine: Engine) -> None:
    queues = AuditQueues.from_config(config)
    with engine.connect() as connection:
        sweep_notices(connection, queues)


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
    assert received.headers["webhook-id"] == _row(engine, delivery_id).event_id
    with pytest.raises(WebhookVerificationError):
        Webhook(target.secret).verify(received.body + b" ", received.headers)
    assert _state(engine, delivery_id) == ("delivered", 1, 204, None)
    assert _row(engine, delivery_id).delivered_at is not None
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
    _add_target(engine, account_id, receiver.url("/services/T/B/x"), SLACK)
    payload = {"summary": "<!channel> & <https://evil.example|click>", "path": "/audits/a1"}
    with engine.begin() as connection:
        [delivery_id] = post_notice(connection, account_id, REPORT_READY, payload)
    send_notice(delivery_id)
    [received] = receiver.received
    message = json.loads(received.body)
    shown = "&lt;!channel&gt; &amp; &lt;https://evil.example|click&gt;"
    assert message["text"] == f"Report ready: {shown}"
    section, link = message["blocks"]
    assert section["text"] == {"type": "mrkdwn", "text": f"*Report ready*\n{shown}"}
    assert link["elements"][0]["text"] == "<https://audit.example/audits/a1|View in Tallystick>"
    assert "webhook-signature" not in received.headers


def test_a_failure_is_followed_by_another_attempt_with_the_same_id(
    engine: Engine, receiver: Receiver, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    receiver.answers = [500, redirect("http://169.254.169.254/"), 404]
    [delivery_id] = post()
    states = []
    for _ in range(4):
        send_notice(delivery_id)
        states.append(_state(engine, delivery_id))
        send_notice(delivery_id)  # too early: it waits
        _change(engine, delivery_id)
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
    _add_target(engine, account_id, receiver.url())
    _add_target(engine, account_id, "http://127.0.0.1:9/")
    receiver.answers = [hang]
    for delivery_id in post():
        send_notice(delivery_id)
    with Session(engine) as session:
        errors = session.scalars(select(NoticeDelivery.error)).all()
    assert sorted(map(str, errors)) == ["ConnectionRefusedError", "TimeoutError"]


def test_pauses_grow_to_four_hours_and_end_after_a_day(
    config: Config, engine: Engine, receiver: Receiver, target: NoticeTarget,
    post: Callable[..., list[str]],
) -> None:  # fmt: skip
    receiver.answers = [500] * 20
    [delivery_id] = post()
    pauses: list[int] = []
    while sum(pauses) < 86_400:
        send_notice(delivery_id)
        row = _row(engine, delivery_id)
        with engine.connect() as connection:
            now = connection.scalar(text("SELECT now()"))
        pauses.append(round((row.next_attempt_at - now).total_seconds()))
        _change(engine, delivery_id)
    assert pauses == [5, 20, 80, 320, 1280, 5120, *[14_400] * 6]
    _change(engine, delivery_id, queued_at=text("now() - interval '24 hours'"))
    _sweep(config, engine)
    assert _state(engine, delivery_id) == ("failed", 12, 500, "given up")
    assert _disabled(engine, target) == "failing"
    assert _mailed(config, engine) == "We disabled your webhook at 127.0.0.1"
    assert post() == []


def _disabled(engine: Engine, target: NoticeTarget) -> str | None:
    with Session(engine) as session:
        row = session.get_one(NoticeTarget, target.id)
        assert (row.disabled_at is None) == (row.disabled_reason is None)
        return row.disabled_reason


def _mailed(config: Config, engine: Engine) -> str:
    """The subject of the one mail, which has no secret part of the URL."""
    with engine.begin() as connection:
        [mail_id] = connection.scalars(
            select(Mail.id).where(Mail.recipient == "notices@example.com")
        ).all()
        dispatch = claim_mail(connection, mail_id, 1)
    assert dispatch is not None
    message = compose(config, dispatch)
    assert "https://audit.example/settings/notices" in message.as_string()
    assert CANARY not in message.as_string()
    return str(message["Subject"])


def test_one_event_that_a_receiver_never_takes_disables_nothing(
    config: Config, engine: Engine, receiver: Receiver, target: NoticeTarget,
    post: Callable[..., list[str]],
) -> None:  # fmt: skip
    receiver.answers = [500]
    [bad], [good] = post(), post()
    send_notice(bad)
    _change(engine, bad, queued_at=text("now() - interval '24 hours'"))
    send_notice(good)
    [unsent] = post()
    _change(engine, unsent, queued_at=text("now() - interval '25 hours'"))  # nobody sent it
    _sweep(config, engine)
    assert [_row(engine, one).status for one in (bad, good, unsent)] == [
        "failed",
        "delivered",
        "failed",
    ]
    assert _disabled(engine, target) is None


def test_a_receiver_that_is_gone_is_disabled_at_once(
    config: Config, engine: Engine, receiver: Receiver, target: NoticeTarget, account_id: str,
    post: Callable[..., list[str]],
) -> None:  # fmt: skip
    [first], [second] = post(), post()
    receiver.answers = [410]
    send_notice(first)
    assert _state(engine, first) == ("failed", 1, 410, "GoneError")
    assert _state(engine, second) == ("failed", 0, None, "target disabled")
    assert _disabled(engine, target) == "gone"
    assert _mailed(config, engine) == "We disabled your webhook at 127.0.0.1"
    with Session(engine) as session:
        assert not resend_delivery(session, account_id, first)
        assert enable_target(session, account_id, target.id)
        assert resend_delivery(session, account_id, first)
        session.commit()
    send_notice(first)
    assert _state(engine, first) == ("delivered", 1, 204, None)
    ids = [received.headers["webhook-id"] for received in receiver.received]
    assert ids[0] == ids[1]


def test_a_failing_target_is_left_alone_for_a_while(
    engine: Engine, receiver: Receiver, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    receiver.answers = [500]
    [first], [second] = post(), post()
    send_notice(first)
    send_notice(second)
    assert _state(engine, second) == ("queued", 0, None, None)
    with engine.connect() as connection:
        assert list_due_deliveries(connection, -3_600) == []
    _change(engine, second)
    send_notice(second)
    send_notice(first)
    assert _row(engine, second).status == "delivered"


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


@at_a_fortieth
def test_a_kill_between_sending_and_committing_loses_nothing(
    engine: Engine, receiver: Receiver, target: NoticeTarget, post: Callable[..., list[str]],
    note: Note, share: float,
) -> None:  # fmt: skip
    """The receiver kills the sender, before or after it answers."""
    kills, losses = scaled(60, share), 0
    for number in range(kills):
        receiver.reset()
        [delivery_id] = post()
        ready, wait = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.read(ready, 1)
            send_notice(delivery_id)
            os._exit(1)

        def kill(handler: Handler, pid: int = pid, answers: bool = bool(number % 2)) -> None:
            if answers:
                handler.answer(204)
            os.kill(pid, signal.SIGKILL)

        receiver.answers = [kill]
        os.write(wait, b"x")
        _, status = os.waitpid(pid, 0)
        os.close(ready)
        os.close(wait)
        was_killed = os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        if _row(engine, delivery_id).status != "delivered":
            _change(engine, delivery_id, lease_expires_at=text("now() - interval '1 second'"))
            send_notice(delivery_id)
        ids = {received.headers["webhook-id"] for received in receiver.received}
        is_done = _row(engine, delivery_id).status == "delivered"
        losses += not (is_done and len(ids) == 1 and (was_killed or number % 2))
    note("N1 SIGKILL while a notice is sent: delivered, with one ID", kills, losses)


def test_lost_wake_ups_are_sent_again(
    config: Config, engine: Engine, receiver: Receiver, target: NoticeTarget,
    post: Callable[..., list[str]],
) -> None:  # fmt: skip
    [delivery_id] = post()
    _change(engine, delivery_id, next_attempt_at=text("now() - interval '2 seconds'"))
    redis = Redis.from_url(config.redis_url)
    for _ in range(2):  # once only, while it waits
        _sweep(config, engine)
        assert redis.lrange("rq:queue:notices", 0, -1) == [f"notice-{delivery_id}-1".encode()]
    redis.delete("rq:queue:notices")
    redis.close()


def test_nothing_secret_is_in_logs_or_in_the_database(
    config: Config, engine: Engine, receiver: Receiver, target: NoticeTarget,
    post: Callable[..., list[str]],
) -> None:  # fmt: skip
    """The URL's path and query, the signing secret and the payload, over every kind of outcome."""
    receiver.answers = [500, redirect(f"http://127.0.0.1/{CANARY}"), 410]
    lines = _capture(config)
    [delivery_id] = post()
    for _ in range(3):
        send_notice(delivery_id)
        _change(engine, delivery_id)
    with engine.begin() as connection:
        connection.execute(text("UPDATE notice_targets SET secret = '', disabled_at = NULL"))
        connection.execute(text("UPDATE notice_deliveries SET status = 'queued'"))
    with pytest.raises(Exception, match="secret"):
        send_notice(delivery_id)
    _sweep(config, engine)
    logged = lines.getvalue()
    assert "notice_postponed" in logged
    assert "notice_target_gone" in logged
    assert CANARY not in logged
    assert target.secret not in logged
    with engine.connect() as connection:
        raw = str(connection.execute(text("SELECT t::text FROM notice_targets t")).all())
    assert CANARY not in raw
    assert "whsec_" not in raw
    assert "sealed:1:" in raw


def test_old_deliveries_go_unless_they_are_still_to_be_sent(
    engine: Engine, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    statuses = ("queued", "sending", "delivered", "failed", "failed")
    ids = [post()[0] for _ in statuses]
    for delivery_id, status in zip(ids, statuses, strict=True):
        _change(engine, delivery_id, status=status, queued_at=text("now() - interval '31 days'"))
    _change(engine, ids[-1], queued_at=text("now() - interval '29 days'"))
    with engine.begin() as connection:
        assert delete_old_deliveries(connection, 30) == 2
        left = connection.scalars(select(NoticeDelivery.status)).all()
    assert sorted(left) == ["failed", "queued", "sending"]


def _capture(config: Config) -> io.StringIO:
    configure_logging(config.log_level)
    handler = next(one for one in logging.getLogger().handlers if one.get_name() == "tallystick")
    assert isinstance(handler, logging.StreamHandler)
    lines = io.StringIO()
    handler.setStream(lines)
    return lines


def test_without_the_setting_a_private_target_is_never_connected_to(
    config: Config, engine: Engine, receiver: Receiver, account_id: str,
    post: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As after a change of the setting, or of a name's addresses, since it was saved."""
    monkeypatch.setenv("NOTICES_PRIVATE_TARGETS", "off")
    for url in (f"https://localhost:{receiver.port}/", receiver.url()):
        _add_target(engine, account_id, url)
    for delivery_id in post():
        send_notice(delivery_id)
    with Session(engine) as session:
        errors = session.scalars(select(NoticeDelivery.error)).all()
    assert sorted(map(str, errors)) == ["InvalidTargetError", "PrivateTargetError"]
    assert receiver.received == []
    assert not replace(config, notices_private_targets="off").allows_private_targets
