"""After a day without success, or a 410, a target is disabled and its owner gets a mail."""

from collections.abc import Callable

from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from service.config import Config
from service.mail.messages import compose
from service.models import Mail, NoticeDelivery, NoticeTarget
from service.models.notices.deliveries import resend_delivery
from service.models.notices.targets import enable_target
from service.models.sending import claim, list_due
from service.notices.job import send_notice
from tests.notice_receiver import Receiver
from tests.worker.support.notices import CANARY, change, disabled_reason, row_of, state_of, sweep


def test_pauses_grow_to_four_hours_and_end_after_a_day(
    config: Config, engine: Engine, receiver: Receiver, target: NoticeTarget,
    post: Callable[..., list[str]],
) -> None:  # fmt: skip
    receiver.answers = [500] * 20
    [delivery_id] = post()
    pauses: list[int] = []
    while sum(pauses) < 86_400:
        send_notice(delivery_id)
        row = row_of(engine, delivery_id)
        with engine.connect() as connection:
            now = connection.scalar(text("SELECT now()"))
        pauses.append(round((row.next_attempt_at - now).total_seconds()))
        change(engine, delivery_id)
    assert pauses == [5, 20, 80, 320, 1280, 5120, *[14_400] * 6]
    change(engine, delivery_id, queued_at=text("now() - interval '24 hours'"))
    sweep(config, engine)
    assert state_of(engine, delivery_id) == ("failed", 12, 500, "given up")
    assert disabled_reason(engine, target) == "failing"
    assert _mailed(config, engine) == "We disabled your webhook at 127.0.0.1"
    assert post() == []


def _mailed(config: Config, engine: Engine) -> str:
    """The subject of the one mail, which has no secret part of the URL."""
    with engine.begin() as connection:
        [mail_id] = connection.scalars(
            select(Mail.id).where(Mail.recipient == "notices@example.com")
        ).all()
        mail = claim(connection, Mail, mail_id, 1)
    assert mail is not None
    message = compose(config, mail)
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
    change(engine, bad, queued_at=text("now() - interval '24 hours'"))
    send_notice(good)
    sweep(config, engine)
    assert [row_of(engine, one).status for one in (bad, good)] == ["failed", "delivered"]
    assert disabled_reason(engine, target) is None


def test_a_notice_that_nobody_tried_to_send_disables_nothing(
    config: Config, engine: Engine, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    """As after a day without a worker."""
    [unsent] = post()
    change(engine, unsent, queued_at=text("now() - interval '25 hours'"))
    sweep(config, engine)
    assert state_of(engine, unsent) == ("failed", 0, None, "given up")
    assert disabled_reason(engine, target) is None


def test_a_receiver_that_is_gone_is_disabled_at_once(
    config: Config, engine: Engine, receiver: Receiver, target: NoticeTarget, account_id: str,
    post: Callable[..., list[str]],
) -> None:  # fmt: skip
    [first], [second] = post(), post()
    receiver.answers = [410]
    send_notice(first)
    assert state_of(engine, first) == ("failed", 1, 410, "GoneError")
    assert state_of(engine, second) == ("failed", 0, None, "target disabled")
    assert disabled_reason(engine, target) == "gone"
    assert _mailed(config, engine) == "We disabled your webhook at 127.0.0.1"
    with Session(engine) as session:
        assert not resend_delivery(session, account_id, first)
        assert enable_target(session, account_id, target.id)
        assert resend_delivery(session, account_id, first)
        session.commit()
    send_notice(first)
    assert state_of(engine, first) == ("delivered", 1, 204, None)
    ids = [received.headers["webhook-id"] for received in receiver.received]
    assert ids[0] == ids[1]


def test_a_failing_target_is_left_alone_for_a_while(
    engine: Engine, receiver: Receiver, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    receiver.answers = [500]
    [first], [second] = post(), post()
    send_notice(first)
    send_notice(second)
    assert state_of(engine, second) == ("queued", 0, None, None)
    with engine.connect() as connection:
        assert list_due(connection, NoticeDelivery, -3_600) == []
    change(engine, second)
    send_notice(second)
    send_notice(first)
    assert row_of(engine, second).status == "delivered"
