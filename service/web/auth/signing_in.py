"""Sign a browser in with an emailed link and, if the account has one, a passkey."""

from typing import NamedTuple

from service.models.identity.accounts import find_account
from service.models.identity.passkeys import PendingSignIn, has_passkey
from service.models.identity.security_events import EventKind, is_new_browser
from service.models.identity.sign_in import (
    MagicLink,
    consume_magic_link,
    end_presented_session,
    open_account,
)
from service.payments import adopt_payments
from service.web.auth import web_sessions
from service.web.auth.passkeys.pending_sign_in import add_pending, await_passkey
from service.web.auth.security_events import count_event, record_event
from service.web.http.current import get_session


class SignIn(NamedTuple):
    """A used link. The sign-in is complete unless the account asks for a passkey."""

    email: str
    needs_passkey: bool


def sign_in_with(secret_hash: bytes, browser_hash: bytes, onward: str) -> SignIn | None:
    """Use the link up and start a new session for this browser; return None if it is invalid.

    The browser's previous session ends. If the account has a passkey, nothing starts or ends until
    the browser has proved it. Commits.
    """
    session = get_session()
    link = consume_magic_link(session, secret_hash)
    if link is None:
        return None
    account = open_account(session, link.email)
    adopt_payments(session, account)
    if not has_passkey(session, account.id):
        start_session(account.id, browser_hash)
        return SignIn(link.email, needs_passkey=False)
    secret = add_pending(account.id, onward)
    session.commit()
    await_passkey(secret)
    return SignIn(link.email, needs_passkey=True)


def complete_sign_in(pending: PendingSignIn, browser_hash: bytes, *, used_passkey: bool) -> str:
    """Start the session of a sign-in that waited; return the path to continue to. Commits."""
    onward, account_id = pending.next_path, pending.account_id
    get_session().delete(pending)
    start_session(account_id, browser_hash, used_passkey=used_passkey)
    return onward


def start_session(account_id: str, browser_hash: bytes, *, used_passkey: bool = False) -> None:
    session = get_session()
    is_new = is_new_browser(session, account_id, browser_hash)
    previous = web_sessions.presented_hash()
    if previous is not None:
        end_presented_session(session, previous)
    secret = web_sessions.add_web_session(session, account_id, used_passkey=used_passkey)
    record_event(EventKind.SIGN_IN, account_id, browser_hash=browser_hash, is_mailed=is_new)
    session.commit()
    web_sessions.remember(secret)


def record_refused_link(link: MagicLink | None) -> None:
    """Record that a link was refused, for the account that it was mailed to, if any. Commits."""
    account = find_account(get_session(), link.email) if link else None
    if account is None:
        count_event(EventKind.SIGN_IN_REFUSED, None)
        return
    record_event(EventKind.SIGN_IN_REFUSED, account.id)
    get_session().commit()
