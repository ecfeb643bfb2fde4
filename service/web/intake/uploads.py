"""What an uploaded file comes to, by the API and by the page alike: the gates, a credit, an audit.

Whoever calls has checked the rate, the session and the announced size, in this order.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from service.errors import InvalidRequestError, PaymentRequiredError
from service.models.audits.audits import (
    UPLOAD,
    Audit,
    KeyTakenError,
    Replay,
    add_audit,
    find_replay,
)
from service.models.billing.credits import NoCreditError, claim_credit, count_free_credits
from service.payments.links import payment_links
from service.web.auth.callers import current_caller, limit_by_caller
from service.web.http.current import current_config, current_queues, get_session
from service.web.http.limits import limiter, per_minute
from service.web.intake.blob_rollback import delete_blob_if_absent, delete_blob_on_error
from service.web.intake.receiving import ReceivedFile, received_file
from service.web.intake.storing import new_audit, store_log

ROUTE: Final = "audits"  # the namespace of uploads' idempotency keys


class Accepted(NamedTuple):
    """The audit that a file led to, now or when its key came before."""

    audit_id: str
    replayed: bool


# One limit however a file is sent.
limit_uploads: Final = limiter.shared_limit(
    per_minute("upload_limit_per_minute"), scope="uploads", key_func=limit_by_caller
)


def accept_upload(
    key: str | None, *, check_token: Callable[[str | None], None] | None = None
) -> Accepted:
    """Take the request's file for a credit, and have it audited; raises what each gate refuses.

    `check_token` is for a form: it judges the token that comes before the file.
    """
    account_id = current_caller().account_id
    earlier = _admit(account_id, key)
    with received_file(check_token) as upload:
        if earlier is not None:
            return _replay(earlier, upload)
        audit = _store(upload, account_id)
        try:
            with delete_blob_on_error(audit.blob_key):
                _claim(audit, key, upload)
        except KeyTakenError as taken:
            return _replay(taken.earlier, upload)
    with delete_blob_if_absent(audit):
        get_session().commit()
    current_queues().enqueue_audit(audit.id, UPLOAD)
    return Accepted(audit.id, replayed=False)


def _admit(account_id: str, key: str | None) -> Replay | None:
    """What the key led to before, or nothing where a credit is free; else nobody reads the body."""
    session = get_session()
    # Counted first: whoever took the last credit under this very key has committed both by then.
    has_credit = count_free_credits(session, account_id) > 0
    earlier = None if key is None else find_replay(session, account_id, ROUTE, key)
    session.rollback()  # gives the connection back before the body is read
    if earlier is None and not has_credit:
        raise _payment_required(account_id)
    return earlier


def _store(upload: ReceivedFile, account_id: str) -> Audit:
    audit = new_audit(account_id, UPLOAD)
    audit.size_bytes, audit.records = upload.size, store_log(upload, audit.blob_key)
    return audit


def _claim(audit: Audit, key: str | None, upload: ReceivedFile) -> None:
    session = get_session()
    add_audit(session, audit, ROUTE, key, body_hash=upload.sha256)
    try:
        claim_credit(session, audit.account_id, audit.id)
    except NoCreditError:
        raise _payment_required(audit.account_id) from None


def _replay(earlier: Replay, upload: ReceivedFile) -> Accepted:
    if earlier.body_hash != upload.sha256:
        raise InvalidRequestError("This Idempotency-Key was used for another file.")
    return Accepted(earlier.audit_id, replayed=True)


def _payment_required(account_id: str) -> PaymentRequiredError:
    links = payment_links(current_config(), account_id)
    return PaymentRequiredError(
        "An upload needs an audit credit, and this account has none left.",
        details={"payment_links": links},
    )
