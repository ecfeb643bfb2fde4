"""Targets and deliveries of notices, and what their rows say."""

from typing import Any

from sqlalchemy import Engine, text, update
from sqlalchemy.orm import Session

from service.config import Config
from service.jobs.queues import AuditQueues
from service.jobs.sending import sweep_unsent
from service.models import NoticeDelivery, NoticeTarget
from service.models.notices.events import REPORT_READY
from service.models.notices.targets import WEBHOOK, NewTarget, add_target

CANARY = "canary-7f3a"
PAYLOAD = {"summary": f"You could save $12/month. {CANARY}", "path": "/audits/a1", "saved": 12}


def add_target_at(engine: Engine, account_id: str, url: str, kind: str = WEBHOOK) -> NoticeTarget:
    with Session(engine, expire_on_commit=False) as session:
        target = add_target(session, account_id, NewTarget(kind, url, [REPORT_READY]))
        session.commit()
        return target


def row_of(engine: Engine, delivery_id: str) -> NoticeDelivery:
    with Session(engine) as session:
        return session.get_one(NoticeDelivery, delivery_id)


def change(engine: Engine, delivery_id: str, **values: Any) -> None:
    """Change the row, as time would; and let the target be tried again."""
    with engine.begin() as connection:
        named = update(NoticeDelivery).where(NoticeDelivery.id == delivery_id)
        connection.execute(named.values(**{"next_attempt_at": text("now()"), **values}))
        connection.execute(update(NoticeTarget).values(resume_at=text("now()")))


def state_of(engine: Engine, delivery_id: str) -> tuple[str, int, int | None, str | None]:
    row = row_of(engine, delivery_id)
    return row.status, row.attempts, row.status_code, row.error


def sweep(config: Config, engine: Engine) -> None:
    queues = AuditQueues.from_config(config)
    with engine.connect() as connection:
        sweep_unsent(connection, NoticeDelivery, queues)


def disabled_reason(engine: Engine, target: NoticeTarget) -> str | None:
    with Session(engine) as session:
        row = session.get_one(NoticeTarget, target.id)
        assert (row.disabled_at is None) == (row.disabled_reason is None)
        return row.disabled_reason
