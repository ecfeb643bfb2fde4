"""Delete an account permanently: first its credentials, then its data, then its row.

Accounting law requires keeping payments, without the address, and their events.
Each step is committed, so transactions stay short and an interrupted deletion can be repeated.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

from sqlalchemy import and_, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from service.core.blobs import BlobStore
from service.core.logs import get_logger
from service.mail.delivery import delete_mail_files
from service.models.access.credentials import IngestKey, ReadToken
from service.models.access.oauth import OAuthApplication, OAuthCode
from service.models.audits.audits import Audit
from service.models.audits.blob_keys import pdf_key
from service.models.billing.payments import Customer, Payment, lock_payments
from service.models.calls.call_files import list_blob_keys
from service.models.identity.accounts import Account, Subscription, get_account
from service.models.identity.early_access import EarlyAccess
from service.models.identity.sign_in import MagicLink, WebSession
from service.models.mail.outbox import Mail
from service.models.notices.targets import NoticeTarget

_PAGE: Final = 500
# A person is waiting. The sweeper removes the remaining blobs as orphans.
_BLOB_SECONDS: Final = 5.0

_log = get_logger(__name__)


def erase_account(
    session: Session,
    blobs: BlobStore,
    *,
    account_id: str,
    email: str,
    session_id: str,
    outbox: Path | None = None,
) -> None:
    """Delete the account of the signed-in person and everything it owns.

    Without a mail server, its mails are files in the `outbox`.
    """
    name = get_account(session, account_id).name
    close_account(session, account_id, email, session_id)
    session.commit()
    ends_at = time.monotonic() + _BLOB_SECONDS
    count = 0
    while audits := delete_audits(session, account_id):
        session.commit()
        count += len(audits)
        for audit in audits:
            if time.monotonic() < ends_at:
                frames = [audit.frame_key] if audit.frame_key is not None else []
                pdfs = {pdf_key(frame, each) for frame in frames for each in ("", name)}
                for key in (audit.blob_key, *frames, *pdfs):
                    with suppress(OSError):
                        blobs.delete(key)
    store_keys = list_blob_keys(session, account_id)
    mail_ids = delete_account(session, account_id, email)
    session.commit()
    for key in takewhile(lambda _key: time.monotonic() < ends_at, store_keys):
        with suppress(OSError):
            blobs.delete(key)
    if outbox is not None:
        delete_mail_files(outbox, mail_ids)
    _log.info("account_deleted", account_id=account_id, audits=count)


def close_account(session: Session, account_id: str, email: str, kept_session_id: str) -> None:
    """Delete the account's credentials, subscriptions, targets of notices and other sessions.

    The current session stays, so that an interrupted deletion can be repeated.
    """
    lock_payments(session)
    _close_payments(session, account_id, email)
    owned = (IngestKey, ReadToken, OAuthApplication, OAuthCode, Subscription, NoticeTarget)
    for table in owned:
        session.execute(delete(table).where(table.account_id == account_id))
    others = (WebSession.account_id == account_id, WebSession.id != kept_session_id)
    session.execute(delete(WebSession).where(*others))


def delete_audits(session: Session, account_id: str) -> Sequence[Audit]:
    """Delete a batch of the account's audits; return an empty list when none are left.

    The deleted rows are returned: delete their blobs after the commit.
    """
    some = select(Audit).where(Audit.account_id == account_id).limit(_PAGE)
    audits = session.scalars(some).all()
    ids = [audit.id for audit in audits]
    for audit in audits:
        session.expunge(audit)
    session.execute(delete(Audit).where(Audit.account_id == account_id, Audit.id.in_(ids)))
    return audits


def delete_account(session: Session, account_id: str, email: str) -> Sequence[str]:
    """Delete the account with its credits, sessions and mail, and all uses of its address.

    Return the IDs of the mails, which may also be files.
    """
    lock_payments(session)
    _close_payments(session, account_id, email)
    mine = or_(Mail.account_id == account_id, Mail.recipient == email)
    mail_ids = session.scalars(delete(Mail).where(mine).returning(Mail.id)).all()
    session.execute(delete(MagicLink).where(MagicLink.email == email))
    session.execute(delete(EarlyAccess).where(EarlyAccess.email == email))
    session.execute(delete(Account).where(Account.id == account_id))
    return mail_ids


def _close_payments(session: Session, account_id: str, email: str) -> None:
    """Keep the account's payments without an address, and prevent them from buying anything.

    Another account's payment with this address only loses the address.
    """
    mine = or_(
        Payment.account_id == account_id,
        and_(Payment.account_id.is_(None), Payment.email == email),
    )
    # Remove the addresses of customers that belong to this account alone.
    theirs = (
        Payment.provider == Customer.provider,
        Payment.customer_reference == Customer.reference,
    )
    others = or_(
        exists().where(*theirs, Payment.account_id.is_distinct_from(account_id)),
        exists().where(Account.email == Customer.email, Account.id != account_id),
    )
    own = and_(exists().where(*theirs, Payment.account_id == account_id), ~others)
    forgotten = update(Customer).where(or_(Customer.email == email, own))
    session.execute(forgotten.values(email=None, forgotten_at=func.now()))
    session.execute(update(Payment).where(mine).values(email=None, closed_at=func.now()))
    session.execute(update(Payment).where(Payment.email == email).values(email=None))
