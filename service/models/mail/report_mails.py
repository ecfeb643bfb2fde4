"""Choose the mails about reports: one per report, a daily digest, or none.

Reports of uploads are always mailed immediately, because someone is waiting for them. Mails about
batches are bounded, because a leaked ingest key could send any number of batches: after the first
few of a day, the others are in a digest.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Date,
    DateTime,
    Row,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session

from service.models.audits.audits import DONE, INGEST, PRICED_FINDINGS, UPLOAD, Audit
from service.models.audits.report_links import issue_link
from service.models.base import Lock, take_lock, utc_now
from service.models.calls.account_findings import AccountFinding, FindingChange
from service.models.calls.daily_spend import PlanRow, SpendDay
from service.models.identity.accounts import DAILY, EACH, WEEKLY, Account
from service.models.mail.outbox import Mail, post_mail

REPORT_READY: Final = "report_ready"
REPORT_DIGEST: Final = "report_digest"
MAILS_A_DAY: Final = 5  # about batches; the last one mentions the digest
_LATEST_DAYS: Final = 2
DIGEST_AUDITS: Final = 10  # listed in a digest; further audits are only counted


class ReportReader(NamedTuple):
    """The recipient of a report mail."""

    account_id: str
    email: str
    is_uploader: bool  # chose the labels in the report
    is_last: bool  # further reports of the day are in a digest


def choose_report_mails(session: Session, account_id: str, choice: str) -> None:
    """Save a choice from `REPORT_MAILS`. It applies to reports from now on."""
    changed = update(Account).where(Account.id == account_id, Account.report_mails != choice)
    session.execute(changed.values(report_mails=choice, digest_sent_until=utc_now()))


def find_report_reader(connection: Connection, audit_id: str) -> ReportReader | None:
    """Return who gets a mail about this audit's report, if the account wants one now."""
    is_wanted_batch = and_(Audit.source == INGEST, Account.report_mails == EACH)
    wanted = or_(Audit.source == UPLOAD, is_wanted_batch)
    row = connection.execute(
        select(Account.id, Account.email, Audit.source)
        .join(Audit, Audit.account_id == Account.id)
        .where(Audit.id == audit_id, wanted)
    ).one_or_none()
    if row is None:
        return None
    if row.source == UPLOAD:
        return ReportReader(row.id, row.email, is_uploader=True, is_last=False)
    take_lock(connection, Lock.REPORT_MAILS, row.id)
    recent = (Mail.kind == REPORT_READY, Mail.created_at > func.now() - timedelta(days=1))
    query = select(func.count()).where(Mail.account_id == row.id, *recent)
    earlier = connection.scalar(query) or 0
    if earlier >= MAILS_A_DAY:
        return None
    is_last = earlier == MAILS_A_DAY - 1
    return ReportReader(row.id, row.email, is_uploader=False, is_last=is_last)


def link_parameters(
    connection: Connection, account_id: str, audit_id: str
) -> dict[str, Any] | None:
    """Issue the audit's report link for a mail; return what it is signed from, None if revoked."""
    link = issue_link(connection, account_id, audit_id)
    if link.is_revoked:
        return None
    return {"generation": link.generation, "issued_at": link.issued_at.isoformat()}


def post_digests(connection: Connection, midnight: datetime, limit: int) -> int:
    """Post the digests of reports finished before this midnight; return their number.

    Each account gets at most one a day: only the process whose UPDATE succeeds posts it.
    """
    sent_until = Account.digest_sent_until
    # An account with a mail per report may never have had a digest.
    latest = func.greatest(sent_until, midnight - timedelta(days=_LATEST_DAYS))
    since = case((Account.report_mails == EACH, latest), else_=sent_until)
    has_news = exists().where(*_news(Account.id, since, midnight))
    wanted = (Account.report_mails.in_((EACH, DAILY)), sent_until < midnight)
    query = select(
        Account.id,
        Account.email,
        Account.report_mails,
        sent_until.label("sent_until"),
        since.label("since"),
    )
    due = connection.execute(query.where(*wanted, has_news).order_by(Account.id).limit(limit)).all()
    posted = 0
    for account in due:
        unchanged = (Account.id == account.id, Account.digest_sent_until == account.sent_until)
        moved = update(Account).where(*unchanged, Account.report_mails == account.report_mails)
        if connection.execute(moved.values(digest_sent_until=midnight)).rowcount:
            news = _news(account.id, account.since, midnight)
            day = {"since": f"{account.since:%Y-%m-%d}"}
            mail_id = post_mail(
                connection,
                account_id=account.id,
                kind=REPORT_DIGEST,
                recipient=account.email,
                parameters={**day, **_summarize(connection, account.id, news, midnight)},
                dedupe_key=f"{REPORT_DIGEST}:{account.id}:{midnight:%Y-%m-%d}",
            )
            posted += mail_id is not None
    return posted


def _news(account_id: Any, since: Any, midnight: datetime) -> tuple[ColumnElement[bool], ...]:
    """Return the condition for audits since the last digest that had no mail of their own."""
    has_mail = exists().where(Mail.dedupe_key == func.concat(f"{REPORT_READY}:", Audit.id))
    return (
        Audit.account_id == account_id,
        Audit.source == INGEST,
        Audit.status == DONE,
        Audit.finished_at >= since,
        Audit.finished_at < midnight,
        ~has_mail,
    )


def _summarize(
    connection: Connection,
    account_id: str,
    news: tuple[ColumnElement[bool], ...],
    midnight: datetime,
) -> dict[str, Any]:
    """Return the totals and the audits with the most avoidable spend. Dollars are strings."""
    metered = (Audit.records - Audit.included_calls).label("records")
    numbers = (func.count(), func.sum(metered), func.sum(Audit.total_spend_usd))
    audits, records, spend = connection.execute(select(*numbers).where(*news)).one()
    order = (Audit.projected_savings_usd.desc(), Audit.finished_at, Audit.id)
    rows = connection.execute(
        select(
            Audit.id,
            Audit.finished_at,
            metered,
            Audit.total_spend_usd,
            Audit.projected_savings_usd,
            Audit.conditional_savings_high_usd,
            Audit.projection,
            Audit.observed_days,
            Audit.monthly_factor,
            PRICED_FINDINGS.label("findings"),
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
        "listed": [
            {
                "audit_id": row.id,
                "finished_at": row.finished_at.isoformat(),
                "records": row.records,
                "spend_usd": str(row.total_spend_usd),
                "savings_usd": str(row.projected_savings_usd),
                "conditional_usd": str(row.conditional_savings_high_usd or 0),
                "projection": row.projection,
                "observed_days": row.observed_days,
                "monthly_factor": row.monthly_factor,
                "findings": row.findings,
                "link": link_parameters(connection, account_id, row.id),
            }
            for row in rows.all()
        ],
    }


WEEKLY_DIGEST: Final = "weekly_digest"
_WEEK: Final = timedelta(days=7)
# A new account has had none; its first digest is of its first week.
_SENT_UNTIL: Final = func.coalesce(Account.digest_sent_until, Account.created_at)


def list_due_weekly(
    connection: Connection, utc: datetime, ends: Mapping[str, datetime], limit: int
) -> Sequence[Row[str, str, str | None]]:
    """Return accounts that want a digest of the week that has ended and have not had it.

    They had calls in it, or findings that changed. It ended at `utc` or, in zones that accounts
    have chosen, at one of `ends`.
    """
    ended_at: Any = literal(utc, DateTime(timezone=True))
    if ends:
        in_zones = {zone: literal(end, DateTime(timezone=True)) for zone, end in ends.items()}
        ended_at = case(in_zones, value=Account.time_zone, else_=ended_at)
    began_at = ended_at - _WEEK
    first, last = (cast(func.timezone("UTC", each), Date) for each in (began_at, ended_at))
    # A week of another zone is on eight days in UTC, of which the last has begun.
    is_utc = Account.time_zone.is_(None)
    has_calls = [
        exists().where(
            table.account_id == Account.id,
            table.day >= first,
            or_(table.day < last, and_(table.day == last, ~is_utc)),
        )
        for table in (SpendDay, PlanRow)
    ]
    has_changes = exists().where(
        AccountFinding.account_id == Account.id,
        FindingChange.account_finding_id == AccountFinding.id,
        FindingChange.changed_at >= began_at,
        FindingChange.changed_at < ended_at,
    )
    query = select(Account.id, Account.email, Account.time_zone).where(
        Account.report_mails == WEEKLY, ended_at > _SENT_UNTIL, or_(*has_calls, has_changes)
    )
    return connection.execute(query.order_by(Account.id).limit(limit)).all()


def claim_week(
    connection: Connection, account: Row[str, str, str | None], ended_at: datetime
) -> bool:
    """Note that the account's digest is posted; False if another process has posted it."""
    due = (Account.id == account.id, Account.report_mails == WEEKLY, ended_at > _SENT_UNTIL)
    moved = update(Account).where(*due).values(digest_sent_until=ended_at)
    return connection.execute(moved).rowcount == 1
