"""Delete an account permanently: first its credentials, then its data, then its row.

Each step is committed, so transactions stay short and an interrupted deletion can be repeated.
"""

import time
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

from sqlalchemy.orm import Session

from service.core.blobs import BlobStore
from service.core.logs import get_logger
from service.mail.delivery import delete_mail_files
from service.models.audits.blob_keys import pdf_key
from service.models.calls.call_files import list_blob_keys
from service.models.identity.accounts import get_account
from service.models.identity.deletion import close_account, delete_account, delete_audits

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
