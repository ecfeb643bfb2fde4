"""Expired data is deleted in time, and nothing else; rows with old times replace a moved clock."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.exc import InternalError
from sqlalchemy.orm import Session

from service.config import Config
from service.core.blobs import BlobStore
from service.models import Account, AdminAction, Audit, MagicLink, Mail, PaymentEvent, WebSession
from service.models.base import utc_now
from service.models.operations import retention
from service.models.operations.admin_actions import COMMAND, log_admin_action
from service.operations.maintenance.housekeeping import Housekeeping
from tests.service.support.scenes import add_account
from tests.worker.support.stored import load


def _keep_house(config: Config, engine: Engine, blobs: BlobStore) -> None:
    housekeeping = Housekeeping(config, blobs)
    with engine.connect() as connection:
        for _ in range(20):
            housekeeping.take_turn(connection)


def _end(engine: Engine, audit_id: str, status: str, days: float) -> None:
    ended = {"status": status, "finished_at": func.now() - timedelta(days=days)}
    with engine.begin() as connection:
        connection.execute(update(Audit).where(Audit.id == audit_id).values(ended))


def _ago(**ago: float) -> datetime:
    return utc_now() - timedelta(**ago)


@pytest.mark.parametrize(
    ("status", "days", "is_purged"),
    [
        ("done", 6.99, False),
        ("done", 7.01, True),
        ("failed", 7.01, False),
        ("failed", 29.99, False),
        ("failed", 30.01, True),
        ("queued", 400, False),
        ("processing", 400, False),
    ],
)
def test_raw_uploads_go_when_their_time_is_over(
    config: Config,
    engine: Engine,
    blobs: BlobStore,
    new_audit: Callable[[], str],
    status: str,
    days: float,
    is_purged: bool,
) -> None:
    audit_id = new_audit()
    _end(engine, audit_id, status, days)
    _keep_house(config, engine, blobs)
    assert (load(engine, audit_id).raw_purged_at is not None) == is_purged
    assert blobs.exists(f"raw/{audit_id}.jsonl") != is_purged


def test_raw_uploads_go_a_batch_at_a_time_until_all_are_gone(
    config: Config,
    engine: Engine,
    blobs: BlobStore,
    new_audit: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (
        "service.operations.maintenance.housekeeping",
        "service.models.operations.retention",
    ):
        monkeypatch.setattr(f"{module}.BATCH", 2)
    audit_ids = [new_audit() for _ in range(5)]
    for audit_id in audit_ids:
        _end(engine, audit_id, "done", 8)
    _keep_house(config, engine, blobs)
    assert not any(blobs.exists(f"raw/{audit_id}.jsonl") for audit_id in audit_ids)


def test_a_rerun_that_was_just_asked_for_keeps_its_upload(
    engine: Engine, new_audit: Callable[[], str]
) -> None:
    """The rerun's transaction is open when housekeeping looks, and commits while it waits."""
    audit_id = new_audit()
    _end(engine, audit_id, "done", 8)

    def purge() -> Sequence[str]:
        with engine.begin() as connection:
            return retention.purge_old_raws(connection, 7, 30)

    with ThreadPoolExecutor(1) as pool, engine.connect() as asking:
        asking.execute(update(Audit).where(Audit.id == audit_id).values(status="queued"))
        purging = pool.submit(purge)
        time.sleep(0.3)
        assert not purging.done()
        asking.commit()
        assert f"raw/{audit_id}.jsonl" not in purging.result()


def test_expired_links_ended_sessions_and_old_mails_go(
    config: Config, engine: Engine, blobs: BlobStore
) -> None:
    with Session(engine) as session:
        account = add_account(session, email="worker@example.com")
        for hours in (-1, 1):
            link = MagicLink(email="a@example.com", secret_hash=str(hours).encode())
            link.expires_at = _ago(hours=-hours)
            session.add(link)
        for name, seen_days, left_days in (("idle", 15, 9), ("ended", 1, -1), ("used", 13, 9)):
            row = WebSession(account_id=account.id, secret_hash=name.encode(), user_agent=name)
            row.last_seen_at, row.expires_at = _ago(days=seen_days), _ago(days=-left_days)
            session.add(row)
        for status in ("queued", "sending", "sent", "failed"):
            for days in (29, 31):
                mail = Mail(kind=f"{status} {days}", recipient="a@example.com", status=status)
                mail.account_id, mail.created_at = account.id, _ago(days=days)
                session.add(mail)
        session.commit()
    _keep_house(config, engine, blobs)
    with Session(engine) as session:
        links = session.scalars(select(MagicLink.secret_hash)).all()
        agents = session.scalars(select(WebSession.user_agent)).all()
        mails = set(session.scalars(select(Mail.kind)))
    assert links == [b"1"]
    assert agents == ["used"]
    assert mails == {"queued 29", "queued 31", "sending 29", "sending 31", "sent 29", "failed 29"}
    with engine.begin() as connection:
        connection.execute(MagicLink.__table__.delete())  # type: ignore[attr-defined]


def test_the_logs_of_payments_and_of_acts_stay(
    config: Config, engine: Engine, blobs: BlobStore
) -> None:
    with Session(engine) as session:
        event = PaymentEvent(provider="stripe", event_id="evt_old", type="x", payload={})
        event.occurred_at = event.received_at = _ago(days=4_000)
        session.add(event)
        log_admin_action(session, COMMAND, "purge", "old", {})
        session.flush()
        before = [session.scalar(select(func.count()).select_from(one)) for one in _LOGS]
        session.commit()
    _keep_house(config, engine, blobs)
    with Session(engine) as session:
        assert [session.scalar(select(func.count()).select_from(one)) for one in _LOGS] == before


_LOGS = (PaymentEvent, AdminAction)


def test_it_rests_between_its_rounds(
    config: Config, engine: Engine, blobs: BlobStore, new_audit: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("service.operations.maintenance.housekeeping.time", clock)
    housekeeping = Housekeeping(config, blobs)
    audit_id = new_audit()
    with engine.connect() as connection:
        housekeeping.take_turn(connection)
        _end(engine, audit_id, "done", 8)
        housekeeping.take_turn(connection)
        assert blobs.exists(f"raw/{audit_id}.jsonl")
        now[0] += 3_600
        housekeeping.take_turn(connection)
    assert not blobs.exists(f"raw/{audit_id}.jsonl")


def test_a_storage_that_fails_is_tried_again_as_an_orphan(
    config: Config, engine: Engine, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    _end(engine, audit_id, "done", 8)
    _keep_house(config, engine, BlobStore.from_url("file:///proc/self/mem"))
    assert load(engine, audit_id).raw_purged_at is not None


def test_unfinished_files_go_even_if_the_database_cannot_write(
    config: Config, engine: Engine, tmp_path: Path
) -> None:
    """As on a full disk, which this frees."""
    unfinished = tmp_path / "raw" / ".put-1"
    unfinished.parent.mkdir()
    unfinished.touch()
    os.utime(unfinished, (0, 0))
    housekeeping = Housekeeping(config, BlobStore.from_url(tmp_path.as_uri()))
    with engine.connect() as connection:
        connection = connection.execution_options(postgresql_readonly=True)
        with pytest.raises(InternalError, match="read-only transaction"):
            housekeeping.take_turn(connection)
    assert not unfinished.exists()


def test_a_digest_is_posted_once_by_housekeeping(
    config: Config, engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    _end(engine, audit_id, "done", 1)
    with Session(engine) as session:
        account = session.get_one(Account, session.get_one(Audit, audit_id).account_id)
        account.report_mails, account.digest_sent_until = "daily", _ago(days=3)
        session.commit()
        account_id = account.id
    for _ in range(2):
        _keep_house(config, engine, blobs)
    with Session(engine) as session:
        mails = session.scalars(select(Mail).where(Mail.account_id == account_id)).all()
        assert [(mail.kind, mail.status) for mail in mails] == [("report_digest", "queued")]
