"""Sign a browser in with an emailed link."""

from service.models.identity.accounts import find_account
from service.models.identity.security_events import EventKind, is_new_browser
from service.models.identity.sign_in import (
    ConsumedLink,
    MagicLink,
    consume_magic_link,
    end_presented_session,
    open_account,
)
from service.payments import adopt_payments
from service.web.auth import web_sessions
from service.web.auth.security_events import count_event, record_event
from service.web.http.current import get_session


def sign_in_with(secret_hash: bytes, browser_hash: bytes) -> ConsumedLink | None:
    """Use the link up and start a new session for this browser; return None if it is invalid.

    The browser's previous session ends. Commits.
    """
    session = get_session()
    link = consume_magic_link(session, secret_hash)
    if link is None:
        return None
    account = open_account(session, link.email)
    adopt_payments(session, account)
    is_new = is_new_browser(session, account.id, browser_hash)
    previous = web_sessions.presented_hash()
    if previous is not None:
        end_presented_session(session, previous)
    secret = web_sessions.add_web_session(session, account.id)
    record_event(EventKind.SIGN_IN, account.id, browser_hash=browser_hash, is_mailed=is_new)
    session.commit()
    web_sessions.remember(secret)
    return link


def record_refused_link(link: MagicLink | None) -> None:
    """Record that a link was refused, for the account that it was mailed to, if any. Commits."""
    account = find_account(get_session(), link.email) if link else None
    if account is None:
        count_event(EventKind.SIGN_IN_REFUSED, None)
        return
    record_event(EventKind.SIGN_IN_REFUSED, account.id)
    get_session().commit()
