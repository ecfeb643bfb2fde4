"""Web sessions: a signed cookie carries a random ID, and a row stores its hash.

The row decides: a cookie without a row is invalid, even with a valid signature.
"""

import hashlib
import secrets
from datetime import timedelta
from typing import Final, cast

from flask import Flask, g, request
from flask import session as cookie
from flask.sessions import SecureCookieSessionInterface
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.config import Config
from service.core import tokens
from service.models.base import utc_now
from service.models.identity.sign_in import (
    KnownSession,
    WebSession,
    find_session,
    update_last_seen,
)
from service.web.http.current import connect, current_config

SECRET_FIELD: Final = "id"  # noqa: S105 - the name of the cookie's field
_MAX_USER_AGENT_LENGTH: Final = 300
# A session's last use is written at most this often, because a write per request is too expensive.
_SEEN_INTERVAL: Final = timedelta(minutes=5)


class SessionCookies(SecureCookieSessionInterface):
    """Flask's signed cookies, with SHA-256 in place of its SHA-1."""

    digest_method = staticmethod(hashlib.sha256)


def init_web_sessions(app: Flask, config: Config) -> None:
    app.session_interface = SessionCookies()
    app.config.update(
        SECRET_KEY=config.secret_key,
        SECRET_KEY_FALLBACKS=config.secret_key_fallbacks.split(),
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SECURE=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,  # the row's times decide, not the cookie's
        PERMANENT_SESSION_LIFETIME=timedelta(days=config.session_days),
    )


def find_web_session() -> KnownSession | None:
    """Return the session of the request; look it up once per request.

    A failed lookup raises the same error on every later call, so a request waits only once for an
    unavailable database, and a signed-in visitor never appears signed out.
    """
    if "web_session_error" in g:
        raise cast(SQLAlchemyError, g.web_session_error)
    if "web_session" not in g:
        try:
            g.web_session = _look_up()
        except SQLAlchemyError as error:
            g.web_session_error = error
            raise
    return cast(KnownSession | None, g.web_session)


def presented_hash() -> bytes | None:
    """Return the hash of the secret in the cookie; None if it is malformed."""
    secret = cookie.get(SECRET_FIELD)
    return tokens.find_hash(tokens.Kind.WEB_SESSION, secret) if isinstance(secret, str) else None


def add_web_session(session: Session, account_id: str, *, used_passkey: bool = False) -> str:
    """Add a session for this browser; pass the returned secret to `remember` after the commit."""
    agent = "".join(filter(str.isprintable, request.user_agent.string))
    row, secret = WebSession.minted(
        account_id,
        days=current_config().session_days,
        user_agent=agent[:_MAX_USER_AGENT_LENGTH],
    )
    row.used_passkey = used_passkey
    session.add(row)
    return secret


def remember(secret: str) -> None:
    """Set a new cookie that keeps nothing of the previous cookie."""
    cookie.clear()
    cookie[SECRET_FIELD] = secret
    cookie.permanent = True


def forget() -> None:
    cookie.clear()


def _look_up() -> KnownSession | None:
    """Look up the session in a separate transaction, so a slow upload holds no connection."""
    secret_hash = presented_hash()
    if secret_hash is None:
        return None
    with connect() as connection:
        known = find_session(connection, secret_hash, current_config().session_idle_days)
        # The index lookup isn't constant-time; this comparison is.
        if known is None or not secrets.compare_digest(known.secret_hash, secret_hash):
            return None
        now = utc_now()
        if now - known.last_seen_at > _SEEN_INTERVAL:
            update_last_seen(connection, known.id, now)
            connection.commit()
    return known
