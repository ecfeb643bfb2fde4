"""The report-ready mail is posted once with the report, and rendered with a new link."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from detectors.contract import Report
from detectors.wording.figures import usd
from detectors.wording.labels import inert, may_be_link
from service.config import Config
from service.core.tokens import verify_report
from service.jobs.queues import NOTICE, AuditQueues, WakeUp
from service.mail.messages import compose
from service.mail.report_ready import post_report_ready
from service.models import Account, Audit, Mail, NoticeDelivery
from service.models.notices.events import REPORT_READY as REPORT_EVENT
from service.models.notices.targets import NewTarget, add_target
from tests.service.support.scaled_reports import HOSTILE_LABELS, make_hostile_report
from tests.worker.support.stored import document
from worker import run_audit


def _mails(engine: Engine, audit_id: str) -> list[Mail]:
    """This audit's mails, with the addresses that they go to."""
    key = f"report_ready:{audit_id}"
    with Session(engine, expire_on_commit=False) as session:
        return list(session.scalars(select(Mail).where(Mail.dedupe_key == key)))


def _compose(config: Config, parameters: dict[str, Any]) -> EmailMessage:
    mail = Mail(
        id="mail",
        kind="report_ready",
        recipient="someone@example.org",
        parameters=parameters,
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    return compose(config, mail)


def _part(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def test_a_published_report_is_mailed_once_and_says_what_the_report_says(
    engine: Engine, config: Config, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)
    (mail,) = _mails(engine, audit_id)
    report = Report.from_json(document(engine, audit_id) or b"")
    message = _compose(config, mail.parameters)
    for kind in ("plain", "html"):
        words = _part(message, kind)
        assert usd(report.findings[0].monthly_cost_impact_usd) in words
        assert report.findings[0].route not in words  # a leaked ingest key could write it
    assert message["Subject"].startswith("Your cost report is ready: You spend about $")
    # The link is made when the mail is and nothing at rest opens the report.
    assert "/r/" not in str(mail.parameters)
    for kind in ("plain", "html"):
        words = _part(_compose(config, mail.parameters), kind)
        (token,) = {one for one in re.findall(rf"{re.escape(config.base_url)}/r/([\w.-]+)", words)}
        assert verify_report(config.secret_key, token, days=30).audit_id == audit_id
    # A published report is mailed once even after a rerun.
    with Session(engine) as session:
        audit = session.get_one(Audit, audit_id)
        assert mail.recipient == session.get_one(Account, audit.account_id).email
    with engine.begin() as connection:
        again = {"status": "queued", "uncounted_attempts": Audit.attempts}
        connection.execute(update(Audit).where(Audit.id == audit_id).values(again))
    run_audit(audit_id)
    assert [one.id for one in _mails(engine, audit_id)] == [mail.id]


@pytest.mark.parametrize(
    ("wants", "posted"), [("each", 1), ("daily", 0), ("weekly", 0), ("none", 0)]
)
def test_an_account_that_chose_fewer_mails_gets_none_of_these(
    engine: Engine, new_audit: Callable[[], str], wants: str, posted: int
) -> None:
    audit_id = new_audit()
    with Session(engine) as session:
        account = session.get_one(Account, session.get_one(Audit, audit_id).account_id)
        account.report_mails = wants
        session.commit()
    run_audit(audit_id)
    assert len(_mails(engine, audit_id)) == posted


def test_the_report_of_an_upload_is_a_notice_too_and_that_of_a_batch_is_none(
    engine: Engine, new_audit: Callable[[], str]
) -> None:
    batch_id, upload_id, report = new_audit(), new_audit(), make_hostile_report()
    with Session(engine) as session:
        upload = session.get_one(Audit, upload_id)
        upload.source = "upload"
        url = "https://example.com/"
        add_target(session, upload.account_id, NewTarget("webhook", url, [REPORT_EVENT]))
        session.commit()
    for audit_id in (batch_id, upload_id, upload_id):
        with engine.begin() as connection:
            post_report_ready(connection, audit_id, report)
    with Session(engine) as session:
        [delivery] = session.scalars(select(NoticeDelivery)).all()
    assert delivery.event_type == "report.ready"
    assert delivery.payload["path"] == f"/audits/{upload_id}"
    assert delivery.payload["summary"].startswith("You ")
    assert delivery.payload["total_spend_usd"] == float(report.audit.total_spend_usd)
    assert delivery.payload["findings_count"] == len(report.findings)


def test_the_notice_of_a_report_is_enqueued_with_its_publication(
    engine: Engine, config: Config, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    with Session(engine) as session:
        upload = session.get_one(Audit, audit_id)
        upload.source = "upload"
        url = "https://example.com/"
        add_target(session, upload.account_id, NewTarget("webhook", url, [REPORT_EVENT]))
        session.commit()
    with Redis.from_url(config.redis_url) as redis:
        redis.flushall()
        run_audit(audit_id)
        with Session(engine) as session:
            delivery_id = session.scalars(select(NoticeDelivery.id)).one()
        waiting = AuditQueues.from_config(config).waiting_job_ids(NOTICE)
        redis.flushall()
    assert waiting == {WakeUp(delivery_id, NOTICE).job_id}


def test_hostile_labels_are_inert_in_the_mail(
    engine: Engine, config: Config, new_audit: Callable[[], str]
) -> None:
    report = make_hostile_report()
    for first in range(0, len(HOSTILE_LABELS), 3):
        audit_id = new_audit()
        with engine.begin() as connection:
            uploaded = update(Audit).where(Audit.id == audit_id).values(source="upload")
            connection.execute(uploaded)
        shown = Report(**{**_fields(report), "findings": report.findings[first : first + 3]})
        with engine.begin() as connection:
            post_report_ready(connection, audit_id, shown)
        message = _compose(config, _mails(engine, audit_id)[0].parameters)
        plain, html = _part(message, "plain"), _part(message, "html")
        assert "\u202e" not in plain + html
        assert "<script" not in html
        assert "<img" not in html
        for finding in shown.findings:
            is_shown = " ".join(inert(finding.route).split()) in plain
            assert is_shown != may_be_link(finding.route)


def _fields(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__struct_fields__}
