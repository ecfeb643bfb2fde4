"""An account with a webhook on this machine, on an installation that allows that."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, delete
from sqlalchemy.orm import Session

from service.config import Config
from service.models import Account, NoticeTarget
from service.models.notices.deliveries import post_notice
from service.models.notices.events import REPORT_READY
from tests.notice_receiver import Receiver, running_receiver
from tests.service.support.scenes import add_account
from tests.worker.support.notices import CANARY, PAYLOAD, add_target_at


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
        account = add_account(session, email="notices@example.com")
        session.commit()
        account_id = account.id
    yield account_id
    with engine.begin() as connection:
        connection.execute(delete(Account).where(Account.id == account_id))


@pytest.fixture
def target(engine: Engine, account_id: str, receiver: Receiver) -> NoticeTarget:
    return add_target_at(engine, account_id, receiver.url(f"/{CANARY}?token={CANARY}"))


@pytest.fixture
def post(engine: Engine, account_id: str) -> Callable[..., list[str]]:
    def post(**options: Any) -> list[str]:
        with engine.begin() as connection:
            return list(post_notice(connection, account_id, REPORT_READY, PAYLOAD, **options))

    return post
