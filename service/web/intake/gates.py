"""Checks before a batch or a file is read: rate, size, credit, and the `Idempotency-Key` header.

They run from cheap to expensive, and none of them reads the body.
"""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from flask import Response, jsonify, request

from service.errors import (
    BadRequestError,
    PayloadTooLargeError,
    PaymentRequiredError,
    RateLimitedError,
)
from service.models.audits.audits import INGEST, UPLOAD
from service.models.audits.idempotency import KeyTakenError, Replay, find_replay
from service.models.billing.credits import count_free_credits
from service.payments.links import purchase_links
from service.web.auth.callers import current_caller, limit_by_caller
from service.web.auth.caps import check_capacity, check_failed_work
from service.web.http.current import connect, current_config, get_session
from service.web.http.limits import limiter, per_minute
from service.web.intake.receiving import MAX_OVERHEAD_BYTES

P = ParamSpec("P")
R = TypeVar("R")

HEADER: Final = "Idempotency-Key"
HEADER_DOCUMENT: Final = {
    "in": "header",
    "name": HEADER,
    "required": False,
    "description": "Makes retries safe. We keep the key as long as its audit.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]{1,255}$"},
}
# Keys are unique per account and namespace, so a batch and a file may share a key.
KEY_NAMESPACES: Final[Mapping[str, str]] = {INGEST: "ingest", UPLOAD: "audits"}
_SHAPE: Final = re.compile(r"[ -~]{1,255}")

# The API and the upload page share one limit.
limit_uploads: Final = limiter.shared_limit(
    per_minute("upload_limit_per_minute"), scope="uploads", key_func=limit_by_caller
)


def idempotency_key() -> str | None:
    """Return the request's key; raise `BadRequestError` for one that is not printable ASCII."""
    return check_key(request.headers.get(HEADER))


def check_key(key: str | None) -> str | None:
    if key is not None and _SHAPE.fullmatch(key) is None:
        raise BadRequestError(f"{HEADER} must be 1 to 255 printable ASCII characters.")
    return key


def replayable(view: Callable[P, Any]) -> Callable[P, Any]:
    """Return the earlier audit for a batch with a used key, regardless of the body."""

    @wraps(view)
    def answered(*args: P.args, **kwargs: P.kwargs) -> Any:
        key = idempotency_key()
        if key is not None:
            account_id = current_caller().account_id
            with connect() as connection:
                earlier = find_replay(connection, account_id, KEY_NAMESPACES[INGEST], key)
            if earlier is not None:
                return _replay(earlier)
        try:
            return view(*args, **kwargs)
        except KeyTakenError as taken:  # by a request that ran at the same time
            return _replay(taken.earlier)

    return answered


def bounded_upload(view: Callable[P, R]) -> Callable[P, R]:
    """Reject a body whose announced length is too large, before reading it."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        max_bytes = current_config().max_upload_bytes
        # A body without a length is counted while it streams.
        request.max_content_length = max_bytes + MAX_OVERHEAD_BYTES
        if (request.content_length or 0) > max_bytes + MAX_OVERHEAD_BYTES:
            raise PayloadTooLargeError(f"The file must be at most {max_bytes:,} bytes.")
        return view(*args, **kwargs)

    return checked


def capped_upload(view: Callable[P, R]) -> Callable[P, R]:
    """Refuse a file of an account that has reached a cap, unless it is a replay."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        session, account_id = get_session(), current_caller().account_id
        try:
            check_failed_work(session, account_id)
            check_capacity(account_id)
        except (RateLimitedError, PaymentRequiredError):
            key = idempotency_key() or check_key(request.args.get("key"))  # the form's
            if key is None or not find_replay(session, account_id, KEY_NAMESPACES[UPLOAD], key):
                raise
        finally:
            session.rollback()  # releases the connection before the body is read
        return view(*args, **kwargs)

    return checked


class Admission(NamedTuple):
    """The right to send a file: a free credit, or an earlier audit of the same key."""

    key: str | None
    earlier: Replay | None


def admit_upload(key: str | None) -> Admission:
    """Look for the audit that the key led to before; without one, require a free credit."""
    session, account_id = get_session(), current_caller().account_id
    # Counted first: a request that used the last credit with this key has committed both by then.
    has_credit = count_free_credits(session, account_id) > 0
    namespace = KEY_NAMESPACES[UPLOAD]
    earlier = None if key is None else find_replay(session, account_id, namespace, key)
    session.rollback()  # releases the connection before the body is read
    if earlier is None and not has_credit:
        raise payment_required()
    return Admission(key, earlier)


def payment_required() -> PaymentRequiredError:
    links = purchase_links(current_config(), current_caller().account_id)
    return PaymentRequiredError(
        "You have no credits left. Buy a credit to upload a file.",
        details={"payment_links": links},
    )


def _replay(earlier: Replay) -> Response:
    return jsonify(audit_id=earlier.audit_id, replayed=True)
