"""tallystick up --seed: an account with example data, for work on the pages.

Ninety days of calls, sent two weeks at a time through the real API and queue, with the account
audited in between. Each file and batch has an idempotency key, so seeding again adds nothing.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from time import monotonic, sleep
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.orm import Session

from detectors.contract import UsageRecordV2
from detectors.formats.columns import TABLE_FIELDS
from service.cli.account import (
    create_account,
    make_sign_in_link,
    mint_ingest_key,
    mint_read_token,
    session_of,
)
from service.cli.command import CommandError
from service.cli.local_calls import LocalService, call
from service.cli.sample.calls import (
    FIXED_ON,
    FIXED_ROUTE,
    RELEASE,
    SEEDED_DAYS,
    UNUSUAL_ROUTE,
    make_calls,
)
from service.models import Account, Audit, IdempotencyKey, IngestKey, ReadToken, ReportRow
from service.models.audits.audits import ACCOUNT, DONE, FAILED
from service.models.audits.idempotency import hash_key
from service.models.base import utc_now
from service.models.calls.account_findings import AccountFinding, FindingChange
from service.models.calls.spend import sum_days
from service.models.identity.accounts import COMP, NEVER, SAMPLE_EMAIL, find_account
from service.models.operations.chart_marks import add_mark
from service.models.watching.budgets import list_budgets, save_budget
from service.operations.findings.changes import change_findings
from service.operations.watching.daily_watch import check_budgets, watch_days
from service.payments import ManualPayment, mark_paid
from service.web.auth.scopes import SCOPES

SEEDED_EMAIL = SAMPLE_EMAIL
_DAYS = 14  # of calls in a batch, which are nearly as many as it may have
_UPLOADED = (1, 5)  # batches whose calls are in a file, too
_BROKEN = 5
# The account is audited after these batches, so that a finding is fixed, and another one returns.
_AUDITED = (2, 4, 6)
# The release that fixes a finding is in this batch.
_RELEASED = FIXED_ON // _DAYS
_CREDITS = 6
_SENDING = "seed"  # the label of the key that sends the batches
_KEYS = ("checkout-service", "nightly-jobs")
_TOKEN = "spreadsheet"  # noqa: S105 - a token's label
_AUDIT_SECONDS = 180.0
_POLL_SECONDS = 0.1
_AUDIT_TIME = timedelta(seconds=4)
_BOUNDARY = "seed-file"
_MULTIPART = f"multipart/form-data; boundary={_BOUNDARY}"
# Fewer than half of its rows can be read, so its audit fails and returns its credit.
_BROKEN_LOG = b"""ts,provider,model,prompt_tokens,completion_tokens
2026-10-05T09:00:00Z,openai,gpt-5.5,1200,85
2026-10-05T09:00:01Z,openai,gpt-5.5,-1,85
2026-10-05T09:00:02Z,openai,gpt-5.5,-1,85
"""

_AUDITED_AFTER = {f"seed-batch-{number}" for number in _AUDITED}
# The account's budget is nearly spent, the route's is not.
_SPENT_SHARE = Decimal("0.92")
_LEAST_BUDGET, _ROUTE_BUDGET = Decimal(100), Decimal(150)

_Where = tuple[ColumnElement[bool], ColumnElement[bool]]
_MakeCalls = Callable[[date], Iterable[list[UsageRecordV2]]]


class Item(NamedTuple):
    """A batch or a file to send, and when it is shown to have arrived."""

    key: str
    arrived_at: datetime
    body: bytes
    is_upload: bool = False


def seed(service: LocalService, make: _MakeCalls = make_calls) -> str:
    """Fill the example account as far as it is not; return a sign-in link for it."""
    with session_of(service.config) as session:
        account = find_account(session, SEEDED_EMAIL) or create_account(
            session, SEEDED_EMAIL, "pro"
        )
        account.report_mails, account.spend_mails = NEVER, False
        session.flush()
        for number in range(_CREDITS):
            gift = {"email": SEEDED_EMAIL, "provider": COMP, "reference": f"seed-{number}"}
            mark_paid(session, ManualPayment(**gift, amount=Decimal(0), currency="USD"))
        session.execute(delete(IngestKey).where(*_labeled(IngestKey, account, _SENDING)))
        for label in _KEYS:
            known = select(IngestKey.id).where(*_labeled(IngestKey, account, label))
            if session.scalar(known) is None:
                mint_ingest_key(session, account, label)
        known = select(ReadToken.id).where(*_labeled(ReadToken, account, _TOKEN))
        if session.scalar(known) is None:
            mint_read_token(session, account, SCOPES, _TOKEN)
        sender = mint_ingest_key(session, account, _SENDING)
        session.commit()
        items = list(_items(account.created_at, make))
        _send(service, session, account, sender, items)
        _wait_until_audited(session, account)
        _date_back(session, account, items)
        # Once, so that a later seeding keeps what a person has changed.
        if not list_budgets(session, account.id):
            today = utc_now().date()
            month = sum_days(session, account.id, (today.replace(day=1), today))
            spent = sum(month.values(), Decimal(0))
            amount = max(spent / _SPENT_SHARE, _LEAST_BUDGET).quantize(Decimal(1))
            save_budget(session, account.id, None, amount)
            save_budget(session, account.id, UNUSUAL_ROUTE, _ROUTE_BUDGET)
        session.execute(delete(IngestKey).where(*_labeled(IngestKey, account, _SENDING)))
        link = make_sign_in_link(session, service.config, SEEDED_EMAIL)
        session.commit()
        with session.connection().engine.connect() as connection:
            watch_days(connection, utc_now())
            check_budgets(connection, utc_now())
    return link


def _labeled(table: type[IngestKey] | type[ReadToken], account: Account, label: str) -> _Where:
    return table.account_id == account.id, table.label == label


def _send(
    service: LocalService, session: Session, account: Account, sender: str, items: Sequence[Item]
) -> None:
    """Send each item that an earlier seeding has not sent, and audit the account in between."""
    mine = IdempotencyKey.account_id == account.id
    known = set(session.scalars(select(IdempotencyKey.key_hash).where(mine)))
    unsent = [item for item in items if hash_key(item.key) not in known]
    cookie = ""
    if unsent:
        link = urlsplit(make_sign_in_link(session, service.config, SEEDED_EMAIL))
        session.commit()
        body = msgspec.json.encode(dict(parse_qsl(link.query)))
        answer = call(service.port, "POST", link.path, {"Content-Type": "application/json"}, body)
        cookies = answer.headers.get_all("Set-Cookie", [])
        cookie = "; ".join(each.partition(";")[0] for each in cookies)
    for item in unsent:
        headers = {"Idempotency-Key": item.key, "Content-Type": "application/json"}
        if item.is_upload:
            headers |= {"Cookie": cookie, "Content-Type": _MULTIPART}
            call(service.port, "POST", "/api/v1/audits", headers, item.body)
        else:
            headers["Authorization"] = f"Bearer {sender}"
            call(service.port, "POST", "/api/v2/ingest", headers, item.body)
        if item.key == f"seed-batch-{_RELEASED}":
            # A release has fixed the finding of this route.
            own = (AccountFinding.account_id == account.id, AccountFinding.route == FIXED_ROUTE)
            ids = session.scalars(select(AccountFinding.id).where(*own)).all()
            reason = f"{RELEASE} reuses answers"
            connection = session.connection()
            change_findings(
                connection, account.id, ids, "fix", changed_by=account.email, reason=reason
            )
            session.commit()
        if item.key in _AUDITED_AFTER:
            _wait_until_audited(session, account)
            with_cookie = {"Cookie": cookie, "Content-Type": "application/json"}
            call(service.port, "POST", "/api/v1/account-audits", with_cookie)
            _wait_until_audited(session, account)
    if cookie:
        call(service.port, "POST", "/auth/logout", {"Cookie": cookie})


def _items(newest: datetime, make: _MakeCalls) -> Iterator[Item]:
    """Return the batches and files, which depend on nothing but the day before the account."""
    last = newest.date() - timedelta(days=1)
    days = list(make(last))
    for number, first in enumerate(range(0, SEEDED_DAYS, _DAYS)):
        calls = [call for day in days[first : first + _DAYS] for call in day]
        arrived_at = calls[-1].ts
        if number in _UPLOADED:
            # The same calls, which the account has once.
            table = io.StringIO()
            writer = csv.DictWriter(table, TABLE_FIELDS)
            writer.writeheader()
            writer.writerows(msgspec.to_builtins(call) for call in calls)
            form = _as_form(table.getvalue().encode())
            yield Item(f"seed-file-{number}", arrived_at, form, is_upload=True)
        yield Item(f"seed-batch-{number}", arrived_at, msgspec.json.encode({"records": calls}))
        if number == _BROKEN:
            yield Item("seed-broken", arrived_at, _as_form(_BROKEN_LOG), is_upload=True)


def _as_form(log: bytes) -> bytes:
    head = b'Content-Disposition: form-data; name="file"; filename="usage.jsonl"'
    edge = f"--{_BOUNDARY}".encode()
    return b"\r\n".join((edge, head, b"", log, edge + b"--", b""))


def _wait_until_audited(session: Session, account: Account) -> None:
    deadline = monotonic() + _AUDIT_SECONDS
    unfinished = select(Audit.id).where(
        Audit.account_id == account.id, Audit.status.not_in((DONE, FAILED))
    )
    while session.scalar(unfinished.limit(1)) is not None:
        if monotonic() > deadline:
            raise CommandError(f"the audits are not done after {_AUDIT_SECONDS:.0f} seconds")
        session.rollback()  # the next look is at what is committed by then
        sleep(_POLL_SECONDS)


def _date_back(session: Session, account: Account, items: Sequence[Item]) -> None:
    """Let each audit have happened when its calls had; those of the account, after their batch."""
    mine = IdempotencyKey.account_id == account.id
    query = select(IdempotencyKey.key_hash, IdempotencyKey.audit_id).where(mine)
    audits = {row.key_hash: row.audit_id for row in session.execute(query)}
    moments = [(audits[hash_key(item.key)], item.arrived_at) for item in items]
    arrived = {item.key: item.arrived_at for item in items}
    own = select(Audit.id).where(Audit.account_id == account.id, Audit.source == ACCOUNT)
    ordered = session.scalars(own.order_by(Audit.created_at, Audit.id)).all()
    after = [arrived[f"seed-batch-{number}"] + _AUDIT_TIME for number in _AUDITED]
    for audit_id, moment in (*moments, *zip(ordered, after, strict=False)):
        done_at = moment + _AUDIT_TIME
        times = {"created_at": moment, "started_at": moment, "finished_at": done_at}
        session.execute(update(Audit).where(Audit.id == audit_id).values(times))
        reports = update(ReportRow).where(ReportRow.audit_id == audit_id)
        session.execute(reports.values(created_at=done_at))
    first = account.created_at.date() - timedelta(days=SEEDED_DAYS)
    released_at = datetime.combine(first + timedelta(days=FIXED_ON), time.min, UTC)
    fixed = (AccountFinding.account_id == account.id, AccountFinding.route == FIXED_ROUTE)
    session.execute(update(AccountFinding).where(*fixed).values(fixed_at=released_at))
    add_mark(session, account.id, released_at.date(), RELEASE)
    ids = select(AccountFinding.id).where(*fixed)
    changes = update(FindingChange).where(FindingChange.account_finding_id.in_(ids))
    session.execute(changes.values(changed_at=released_at))
