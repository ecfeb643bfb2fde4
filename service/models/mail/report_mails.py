"""Who hears of which report by mail: each as it is ready, all of a day together, or none.

Reports of uploads are always told at once: somebody waits for them.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.models.audits.audits import DONE, INGEST, UPLOAD, Audit
from service.models.base import utc_now
from service.models.identity.accounts import DAILY, EACH, Account
from service.models.mail.outbox import Mail

REPORT_READY: Final = "report_ready"
REPORT_DIGEST: Final = "report_digest"
MANY_A_DAY: Final = 5  # more mails than that, and each of them says how to get fewer
DIGEST_AUDITS: Final = 10  # told one by one; the rest of a day is only counted


class ReportReader(NamedTuple):
    """Who is told of a report."""

    account_id: str
    email: str
    gets_many: bool  # had enough of these mails within a day to be told of the choice


def choose_report_mails(session: Session, account_id: str, choice: str) -> None:
    """One of `REPORT_MAILS`. Reports of before are told as was chosen before, or not at all."""
    changed = update(Account).where(Account.id == account_id, Account.report_mails != choice)
    session.execute(changed.values(report_mails=choice, reports_told_until=utc_now()))


def find_report_reader(connection: Connection, audit_id: str) -> ReportReader | None:
    """Whom to mail that this audit's report is ready, if the account wants a mail for it."""
    wanted = or_(Audit.source == UPLOAD, Account.report_mails == EACH)
    row = connection.execute(
        select(Account.id, Account.email, Audit.source)
        .join(Audit, Audit.account_id == Account.id)
        .where(Audit.id == audit_id, wanted)
    ).one_or_none()
    if row is None:
        return None
    # There is no choice about uploads, so none is offered in their mails.
    gets_many = row.source == INGEST and _count_recent(connection, row.id) >= MANY_A_DAY
    return ReportReader(row.id, row.email, gets_many)


def _count_recent(connection: Connection, account_id: str) -> int:
    recent = (Mail.kind == REPORT_READY, Mail.created_at > func.now() - timedelta(days=1))
    query = select(func.count()).where(Mail.account_id == account_id, *recent)
    return connection.scalar(query) or 0


def post_digests(connection: Connection, midnight: datetime, limit: int) -> int:
    """Post what was ready before this midnight to some who are to be told; tells to how many.

    At most one a day and account: whoever moves on what an account was told of may tell it.
    """
    posted = 0
    for account in _list_due(connection, midnight, limit):
        told = (Account.id == account.id, Account.reports_told_until == account.since)
        moved = update(Account).where(*told, Account.report_mails == DAILY)
        if connection.execute(moved.values(reports_told_until=midnight)).rowcount:
            posted += _post(connection, account, midnight)
    return posted


def _list_due(connection: Connection, midnight: datetime, limit: int) -> Sequence[Any]:
    has_news = exists().where(*_news(Account.id, Account.reports_told_until, midnight))
    wanted = (Account.report_mails == DAILY, Account.reports_told_until < midnight)
    query = select(Account.id, Account.email, Account.reports_told_until.label("since"))
    return connection.execute(
        query.where(*wanted, has_news).order_by(Account.id).limit(limit)
    ).all()


def _news(account_id: Any, since: Any, midnight: datetime) -> tuple[ColumnElement[bool], ...]:
    """What was ready since the last digest, or since a digest was chosen."""
    return (
        Audit.account_id == account_id,
        Audit.source == INGEST,
        Audit.status == DONE,
        Audit.finished_at >= since,
        Audit.finished_at < midnight,
    )


def _post(connection: Connection, account: Any, midnight: datetime) -> int:
    news = _news(account.id, account.since, midnight)
    mail = {
        "account_id": account.id,
        "kind": REPORT_DIGEST,
        "recipient": account.email,
        "parameters": {
            "since": f"{account.since:%Y-%m-%d}",
            **_summarise(connection, news, midnight),
        },
        "dedupe_key": f"{REPORT_DIGEST}:{account.id}:{midnight:%Y-%m-%d}",
    }
    once = insert(Mail).values(mail).on_conflict_do_nothing(index_elements=["dedupe_key"])
    return connection.execute(once).rowcount


def _summarise(
    connection: Connection, news: tuple[ColumnElement[bool], ...], midnight: datetime
) -> dict[str, Any]:
    """The day in numbers, and its audits with the most to save. Dollars are texts."""
    numbers = (func.count(), func.sum(Audit.records), func.sum(Audit.total_spend_usd))
    audits, records, spend = connection.execute(select(*numbers).where(*news)).one()
    order = (Audit.projected_savings_usd.desc(), Audit.finished_at, Audit.id)
    rows = connection.execute(
        select(
            Audit.id,
            Audit.finished_at,
            Audit.records,
            Audit.total_spend_usd,
            Audit.projected_savings_usd,
            Audit.findings_count,
        )
        .where(*news)
        .order_by(*order)
        .limit(DIGEST_AUDITS)
    )
    return {
        "day": f"{midnight - timedelta(days=1):%Y-%m-%d}",
        "audits": audits,
        "records": int(records),
        "spend_usd": str(spend),
        "listed": [_as_parameters(row) for row in rows],
    }


def _as_parameters(row: Any) -> dict[str, Any]:
    return {
        "audit_id": row.id,
        "finished_at": row.finished_at.isoformat(),
        "records": row.records,
        "spend_usd": str(row.total_spend_usd),
        "savings_usd": str(row.projected_savings_usd),
        "findings": row.findings_count,
    }
