"""tallystick up --seed: an account with example data, for work on the pages.

Two months of audits of the sample log, sent through the real API and queue. Each file and batch
has an idempotency key, so seeding again adds nothing.
"""

import csv
import io
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.orm import Session

from detectors.contract import RECORD_FIELDS, UsageRecord
from service.cli.account import create_account, mint_ingest_key, mint_read_token, session_of
from service.cli.local_calls import LocalService, call
from service.cli.options import CommandError
from service.cli.sample_log import read_sample
from service.cli.sign_in_link import make_sign_in_link
from service.models import Account, Audit, IdempotencyKey, IngestKey, ReadToken, ReportRow
from service.models.audits.audits import DONE, FAILED
from service.models.identity.accounts import COMP, NEVER, find_account
from service.payments import ManualPayment, mark_paid
from service.web.auth.scopes import SCOPES

SEEDED_EMAIL = "seed@tallystick.example"
_BATCHES = 12  # of a week of calls each, the last one ends now
_UPLOADS = 3
_CREDITS = 6
_SENDING = "seed"  # the label of the key that sends the batches
_KEYS = ("checkout-service", "nightly-jobs")
_TOKEN = "spreadsheet"  # noqa: S105 - a token's label
_AUDIT_SECONDS = 180.0
_POLL_SECONDS = 0.5
_WEEK = timedelta(days=7)
_BETWEEN_BATCHES = timedelta(days=5)
_AUDIT_TIME = timedelta(seconds=4)
_BOUNDARY = "seed-file"
_MULTIPART = f"multipart/form-data; boundary={_BOUNDARY}"
# Fewer than half of its rows can be read, so its audit fails and returns its credit.
_BROKEN_LOG = b"""ts,provider,model,prompt_tokens,completion_tokens
2026-10-05T09:00:00Z,openai,gpt-5.5,1200,85
2026-10-05T09:00:01Z,openai,gpt-5.5,-1,85
2026-10-05T09:00:02Z,openai,gpt-5.5,-1,85
"""

_Where = tuple[ColumnElement[bool], ColumnElement[bool]]


class Item(NamedTuple):
    """A batch or a file to send, and when it is shown to have arrived."""

    key: str
    arrived_at: datetime
    body: bytes
    is_upload: bool = False


def seed(service: LocalService) -> str:
    """Fill the example account as far as it is not; return a sign-in link for it."""
    with session_of(service.config) as session:
        account = find_account(session, SEEDED_EMAIL) or create_account(
            session, SEEDED_EMAIL, "pro"
        )
        account.report_mails = NEVER
        session.flush()
        _add_credits_and_keys(session, account)
        sender = mint_ingest_key(session, account, _SENDING)
        session.commit()
        _send(service, session, account, sender)
        _wait_until_audited(session, account)
        _date_back(session, account)
        session.execute(delete(IngestKey).where(*_labeled(IngestKey, account, _SENDING)))
        link = make_sign_in_link(session, service.config, SEEDED_EMAIL)
        session.commit()
    return link


def _add_credits_and_keys(session: Session, account: Account) -> None:
    for number in range(_CREDITS):
        gift = {"email": SEEDED_EMAIL, "provider": COMP, "reference": f"seed-{number}"}
        mark_paid(session, ManualPayment(**gift, amount=Decimal(0), currency="USD"))
    session.execute(delete(IngestKey).where(*_labeled(IngestKey, account, _SENDING)))
    for label in _KEYS:
        if session.scalar(select(IngestKey.id).where(*_labeled(IngestKey, account, label))) is None:
            mint_ingest_key(session, account, label)
    if session.scalar(select(ReadToken.id).where(*_labeled(ReadToken, account, _TOKEN))) is None:
        mint_read_token(session, account, SCOPES, _TOKEN)


def _labeled(table: type[IngestKey] | type[ReadToken], account: Account, label: str) -> _Where:
    return table.account_id == account.id, table.label == label


def _send(service: LocalService, session: Session, account: Account, sender: str) -> None:
    """Send each item that an earlier seeding has not sent."""
    mine = IdempotencyKey.account_id == account.id
    known = set(session.scalars(select(IdempotencyKey.key).where(mine)))
    items = [item for item in _items(account.created_at) if item.key not in known]
    cookie = _sign_in(service, session) if any(item.is_upload for item in items) else ""
    for item in items:
        headers = {"Idempotency-Key": item.key, "Content-Type": "application/json"}
        if item.is_upload:
            headers |= {"Cookie": cookie, "Content-Type": _MULTIPART}
            call(service.port, "POST", "/api/v1/audits", headers, item.body)
        else:
            headers["Authorization"] = f"Bearer {sender}"
            call(service.port, "POST", "/api/v1/ingest", headers, item.body)
    if cookie:
        call(service.port, "POST", "/auth/logout", {"Cookie": cookie})


def _sign_in(service: LocalService, session: Session) -> str:
    link = urlsplit(make_sign_in_link(session, service.config, SEEDED_EMAIL))
    session.commit()
    body = msgspec.json.encode(dict(parse_qsl(link.query)))
    answer = call(service.port, "POST", link.path, {"Content-Type": "application/json"}, body)
    cookies = answer.headers.get_all("Set-Cookie", [])
    return "; ".join(cookie.partition(";")[0] for cookie in cookies)


def _items(newest: datetime) -> Iterator[Item]:
    """Return the batches and files, which depend on nothing but the time of the newest."""
    weeks = _split_into_weeks(read_sample())
    for number in range(_BATCHES):
        arrived_at = newest - (_BATCHES - 1 - number) * _BETWEEN_BATCHES
        calls = _shift(weeks[number % len(weeks)], arrived_at)
        # Usage grows, so that the charts show a trend.
        kept = [each for index, each in enumerate(calls) if index % _BATCHES < number // 2 + 6]
        yield Item(f"seed-batch-{number}", arrived_at, msgspec.json.encode({"records": kept}))
    for number in range(_UPLOADS):
        arrived_at = newest - (2 * number + 1) * _WEEK - timedelta(hours=5)
        calls = [each for each in _shift(weeks[0], arrived_at) if each.provider == "openai"]
        log = _as_form(_as_csv(calls[number * 200 :]))
        yield Item(f"seed-file-{number}", arrived_at, log, is_upload=True)
    yield Item("seed-broken", newest - 2 * _WEEK, _as_form(_BROKEN_LOG), is_upload=True)


def _split_into_weeks(records: Sequence[UsageRecord]) -> tuple[Sequence[UsageRecord], ...]:
    middle = records[0].ts + _WEEK
    earlier = [record for record in records if record.ts < middle]
    return earlier, records[len(earlier) :]


def _shift(records: Sequence[UsageRecord], end: datetime) -> list[UsageRecord]:
    """Return the same calls at later times, the last of them at the end."""
    by = end - records[-1].ts
    return [msgspec.structs.replace(each, ts=each.ts + by) for each in records]


def _as_csv(records: Sequence[UsageRecord]) -> bytes:
    table = io.StringIO()
    writer = csv.DictWriter(table, RECORD_FIELDS)
    writer.writeheader()
    writer.writerows(msgspec.to_builtins(record) for record in records)
    return table.getvalue().encode()


def _as_form(log: bytes) -> bytes:
    head = b'Content-Disposition: form-data; name="file"; filename="usage.jsonl"'
    edge = f"--{_BOUNDARY}".encode()
    return b"\r\n".join((edge, head, b"", log, edge + b"--", b""))


def _wait_until_audited(session: Session, account: Account) -> None:
    deadline = time.monotonic() + _AUDIT_SECONDS
    unfinished = select(Audit.id).where(
        Audit.account_id == account.id, Audit.status.not_in((DONE, FAILED))
    )
    while session.scalar(unfinished.limit(1)) is not None:
        if time.monotonic() > deadline:
            raise CommandError(f"the audits are not done after {_AUDIT_SECONDS:.0f} seconds")
        session.rollback()  # the next look is at what is committed by then
        time.sleep(_POLL_SECONDS)


def _date_back(session: Session, account: Account) -> None:
    """Let each audit have happened when its calls had."""
    mine = IdempotencyKey.account_id == account.id
    query = select(IdempotencyKey.key, IdempotencyKey.audit_id).where(mine)
    audits = {row.key: row.audit_id for row in session.execute(query)}
    for item in _items(account.created_at):
        audit_id, done_at = audits[item.key], item.arrived_at + _AUDIT_TIME
        session.execute(
            update(Audit)
            .where(Audit.id == audit_id)
            .values(created_at=item.arrived_at, started_at=item.arrived_at, finished_at=done_at)
        )
        session.execute(
            update(ReportRow).where(ReportRow.audit_id == audit_id).values(created_at=done_at)
        )
