"""What nobody else may see stays here: URLs, secrets and payloads; and so does our own network."""

import io
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from service.config import Config
from service.models import NoticeDelivery, NoticeTarget
from service.notices.job import send_notice
from tests.notice_receiver import Receiver, redirect
from tests.worker.support.notices import CANARY, add_target_at, change, sweep


def test_nothing_secret_is_in_logs_or_in_the_database(
    config: Config, engine: Engine, receiver: Receiver, target: NoticeTarget,
    post: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The URL's path and query, the signing secret and the payload, over every kind of outcome."""
    receiver.answers = [500, redirect(f"http://127.0.0.1/{CANARY}"), 410]
    handler = next(one for one in logging.getLogger().handlers if one.get_name() == "tallystick")
    lines = io.StringIO()
    monkeypatch.setattr(handler, "stream", lines)
    [delivery_id] = post()
    for _ in range(3):
        send_notice(delivery_id)
        change(engine, delivery_id)
    with engine.begin() as connection:
        connection.execute(text("UPDATE notice_targets SET secret = '', disabled_at = NULL"))
        connection.execute(text("UPDATE notice_deliveries SET status = 'queued'"))
    with pytest.raises(Exception, match="secret"):
        send_notice(delivery_id)
    sweep(config, engine)
    logged = lines.getvalue()
    assert "notice_postponed" in logged
    assert "notice_refused" in logged
    assert CANARY not in logged
    assert target.secret not in logged
    with engine.connect() as connection:
        raw = str(connection.execute(text("SELECT t::text FROM notice_targets t")).all())
    assert CANARY not in raw
    assert "whsec_" not in raw
    assert "sealed:1:" in raw


def test_without_the_setting_a_private_target_is_never_connected_to(
    config: Config, engine: Engine, receiver: Receiver, account_id: str,
    post: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As after a change of the setting, or of a name's addresses, since it was saved."""
    monkeypatch.setenv("NOTICES_PRIVATE_TARGETS", "off")
    for url in (f"https://localhost:{receiver.port}/", receiver.url()):
        add_target_at(engine, account_id, url)
    for delivery_id in post():
        send_notice(delivery_id)
    with Session(engine) as session:
        errors = session.scalars(select(NoticeDelivery.error)).all()
    assert sorted(map(str, errors)) == ["InvalidTargetError", "PrivateTargetError"]
    assert receiver.received == []
    assert not replace(config, notices_private_targets="off").allows_private_targets
