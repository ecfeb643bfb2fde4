"""Authenticate callers: one decorator per kind of credential. A view takes exactly one kind."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Final, ParamSpec, TypeVar, cast

from flask import g, request
from sqlalchemy.exc import SQLAlchemyError

from service.core import tokens
from service.errors import ForbiddenError, PaymentRequiredError, UnauthorizedError
from service.models.access.credentials import (
    Credential,
    IngestKey,
    ReadToken,
    find_ingest_key,
    find_read_token,
)
from service.models.access.oauth import OAuthToken, find_access_token
from service.models.identity.accounts import FREE
from service.models.identity.security_events import EventKind
from service.web.auth.credential_usage import CredentialTable, current_credential_usage
from service.web.auth.security_events import count_event
from service.web.auth.web_sessions import find_web_session
from service.web.http.current import connect, current_session_factory
from service.web.http.limits import client_address, limiter, per_minute
from service.web.http.paths import check_path_values

P = ParamSpec("P")
R = TypeVar("R")

_REALM: Final = 'Bearer realm="tallystick"'
_SESSION_REALM: Final = 'Session realm="tallystick"'
EMAIL_HEADER: Final = "x-user-email"
EMAIL_HEADER_DOCUMENT: Final = {
    "in": "header",
    "name": EMAIL_HEADER,
    "required": False,
    "description": "Optional check: 401 if it differs from the session's email address.",
    "schema": {"type": "string"},
}
_NAMES: Final = {
    tokens.Kind.INGEST_KEY: "ingest key",
    tokens.Kind.READ_TOKEN: "read token",
    tokens.Kind.ACCESS_TOKEN: "access token",
}
_READERS: Final = (tokens.Kind.READ_TOKEN, tokens.Kind.ACCESS_TOKEN)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The account behind a credential; every query of the request is limited to it."""

    account_id: str
    credential_id: str
    has_active_subscription: bool = False
    plan: str | None = None  # of an ingest key's account
    scopes: Sequence[str] = ()
    client: str = ""  # the name of an ingest key
    email: str = field(default="", repr=False)  # of a signed-in person


def current_caller() -> Caller:
    return cast(Caller, g.caller)


def credential_id() -> str:
    """Return the key for rate limits by credential; call it only after authentication."""
    return current_caller().credential_id


def limit_by_caller() -> str:
    """Return the key for rate limits by person: the signed-in account, or else the IP address."""
    try:
        known = find_web_session()
    except SQLAlchemyError:
        # The limiter would swallow the error; the view that needs the session raises it again.
        known = None
    return f"user:{known.account_id}" if known else client_address()


_limit_by_key: Final = limiter.shared_limit(
    per_minute("ingest_key_limit_per_minute"), "ingest key", key_func=credential_id
)
_limit_by_address: Final = limiter.shared_limit(
    per_minute("ingest_ip_limit_per_minute"), "ingest address", key_func=client_address
)
# One limit for all pages together; report links are pages too.
limit_pages: Final = limiter.shared_limit(
    per_minute("page_limit_per_minute"), scope="pages", key_func=limit_by_caller
)


def require_login(view: Callable[P, R]) -> Callable[P, R]:
    """Require a signed-in session."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        known = find_web_session()
        if known is None:
            # Not parsed: Werkzeug raises an error for other characters than ASCII.
            scheme = request.headers.get("Authorization", "").partition(" ")[0]
            hint = " Keys and tokens don't work here." if scheme.lower() == "bearer" else ""
            message = f"Sign in to continue.{hint}"
            raise UnauthorizedError(message, {"WWW-Authenticate": _SESSION_REALM})
        claimed = request.headers.get(EMAIL_HEADER, known.email).strip().lower()
        if not secrets.compare_digest(claimed.encode(), known.email.encode()):
            raise UnauthorizedError(
                f"You're signed in with a different account than the one in {EMAIL_HEADER}.",
                {"WWW-Authenticate": _SESSION_REALM},
            )
        g.caller = Caller(
            account_id=known.account_id,
            credential_id=known.id,
            has_active_subscription=known.has_active_subscription,
            email=known.email,
        )
        check_path_values()
        return view(*args, **kwargs)

    checked.checks_path_values = True  # type: ignore[attr-defined]
    return checked


def require_key(view: Callable[P, R]) -> Callable[P, R]:
    """Require an ingest key."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        kind, secret_hash = _presented(tokens.Kind.INGEST_KEY)
        with connect() as connection:
            found = find_ingest_key(connection, secret_hash)
        known = _checked(kind, found, secret_hash)
        _count_use(IngestKey, known)
        g.caller = Caller(
            account_id=known.account_id,
            credential_id=known.id,
            has_active_subscription=known.plan != FREE,
            plan=known.plan,
            client=known.name,
        )
        check_path_values()
        return view(*args, **kwargs)

    checked.checks_path_values = True  # type: ignore[attr-defined]
    return checked


def limit_keys(view: Callable[P, R]) -> Callable[P, R]:
    """Apply the limits of ingest, which all its routes share; place it below `require_key`."""
    limited: Callable[P, R] = _limit_by_key(_limit_by_address(view))
    return limited


def require_subscription(view: Callable[P, R]) -> Callable[P, R]:
    """Require an active subscription; place it below `require_key` and the limits."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not current_caller().has_active_subscription:
            raise PaymentRequiredError(
                "Ingest requires an active subscription. It resumes when your subscription does."
            )
        return view(*args, **kwargs)

    return checked


def require_scope(*scopes: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Require a read token or access token with all of these scopes."""

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        @wraps(view)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            kind, secret_hash = _presented(*_READERS)
            is_own = kind == tokens.Kind.READ_TOKEN
            find, table = (
                (find_read_token, ReadToken) if is_own else (find_access_token, OAuthToken)
            )
            with current_session_factory()() as session:
                found = find(session, secret_hash)
            known = _checked(kind, found, secret_hash)
            _count_use(table, known)
            lacking = [scope for scope in scopes if scope not in known.scopes]
            if lacking:
                challenge = f'{_REALM}, error="insufficient_scope", scope="{" ".join(lacking)}"'
                noun = "scope" if len(lacking) == 1 else "scopes"
                message = f"This token doesn't have the {noun} {' and '.join(lacking)}."
                raise ForbiddenError(message, {"WWW-Authenticate": challenge})
            g.caller = Caller(
                account_id=known.account_id, credential_id=known.id, scopes=known.scopes
            )
            check_path_values()
            return view(*args, **kwargs)

        checked.checks_path_values = True  # type: ignore[attr-defined]
        return checked

    return decorate


def _presented(*kinds: tokens.Kind) -> tuple[tokens.Kind, bytes]:
    """Return the bearer token's kind and hash; reject malformed tokens without a query."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret:
        raise UnauthorizedError(
            f"Send your {_NAMES[kinds[0]]} in the header `Authorization: Bearer {kinds[0]}...`.",
            {"WWW-Authenticate": _REALM},
        )
    kind = next((kind for kind in kinds if secret.startswith(kind)), kinds[0])
    secret_hash = tokens.find_hash(kind, secret)
    if secret_hash is None:
        other = next((name for each, name in _NAMES.items() if secret.startswith(each)), "")
        if other and not secret.startswith(kinds):
            raise _invalid(kind, f"Use your {_NAMES[kind]} (`{kind}...`) here, not your {other}.")
        raise _invalid(kind)
    return kind, secret_hash


def _checked(kind: tokens.Kind, known: Credential | None, secret_hash: bytes) -> Credential:
    # The index lookup isn't constant-time; this comparison is.
    if known is None or not secrets.compare_digest(known.secret_hash, secret_hash):
        raise _invalid(kind)
    return known


def _invalid(
    kind: tokens.Kind,
    advice: str = "Check that it is complete and hasn't expired or been revoked.",
) -> UnauthorizedError:
    count_event(EventKind.CREDENTIAL_REFUSED, None, credential=_NAMES[kind])
    return UnauthorizedError(
        f"Invalid {_NAMES[kind]}. {advice}",
        {"WWW-Authenticate": f'{_REALM}, error="invalid_token"'},
    )


def _count_use(table: CredentialTable, known: Credential) -> None:
    usage = current_credential_usage()
    if usage.add(table, known.id, known.last_used_at):
        with current_session_factory()() as session:
            usage.write(session)
            session.commit()
