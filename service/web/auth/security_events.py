"""Record security events: a row on the account's activity page, a log line and a counter.

Some are mailed to the account as well, so that a stolen session isn't quiet.
"""

from typing import Any, Final

from flask import Flask, Response, g, request
from sqlalchemy.exc import SQLAlchemyError

from service.core.logs import get_logger
from service.core.telemetry.counters import SECURITY_EVENTS
from service.mail.security_notice import NOTICES, post_notice
from service.models.identity.accounts import get_account
from service.models.identity.security_events import EventKind, add_security_event
from service.web.auth.browsers import describe_browser, find_browser_hash
from service.web.auth.web_sessions import find_web_session
from service.web.http.current import current_queues, get_session

_NOTICES: Final = "security_notices"

_log = get_logger(__name__)


def init_security_events(app: Flask) -> None:
    @app.after_request
    def enqueue_notices(response: Response) -> Response:
        """Wake the mail worker after the view's commit; without a commit, there is no such mail."""
        for mail_id in g.pop(_NOTICES, ()):
            current_queues().enqueue_mail(mail_id)
        return response


def record_event(
    kind: EventKind,
    account_id: str,
    *,
    browser_hash: bytes | None = None,
    is_mailed: bool | None = None,
    **details: Any,
) -> None:
    """Add an event to the request's transaction; the view commits.

    `is_mailed` overrides whether this kind of event is mailed.
    """
    session, browser = get_session(), describe_browser(request.user_agent.string)
    add_security_event(
        session,
        account_id,
        kind,
        details,
        browser=browser,
        browser_hash=browser_hash or find_browser_hash(),
    )
    count_event(kind, account_id, **details)
    if kind in NOTICES if is_mailed is None else is_mailed:
        account = get_account(session, account_id)
        mail_id = post_notice(
            session, account, kind, browser=browser, subject=details.get("prefix")
        )
        g.setdefault(_NOTICES, []).append(mail_id)


def record_refusal(kind: EventKind) -> None:
    """Record that a request was refused, in a transaction of its own that this commits.

    The row belongs to the signed-in account, if there is one.
    """
    account_id = None
    try:
        known = find_web_session()
        if known is not None:
            account_id = known.account_id
            record_event(kind, account_id, route=_route())
            get_session().commit()
    except SQLAlchemyError:
        get_session().rollback()  # the refusal doesn't depend on its record
    if account_id is None:
        count_event(kind, None, route=_route())


def count_event(kind: EventKind, account_id: str | None, **details: Any) -> None:
    """Log and count an event that no account's page shows."""
    SECURITY_EVENTS.labels(kind).inc()
    _log.info("security_event", kind=str(kind), account_id=account_id, **details)


def _route() -> str | None:
    return request.url_rule.rule if request.url_rule is not None else None
