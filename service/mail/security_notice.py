"""The mail that something security-relevant happened in an account.

It contains no text that anyone chose: no label, no application's name, no user agent.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy.orm import Session

from service.config import Config
from service.core.time_zones import minute
from service.models.base import utc_now
from service.models.identity.accounts import Account
from service.models.identity.security_events import EventKind
from service.models.mail.outbox import post_mail

SECURITY_NOTICE: Final = "security_notice"


class NoticeWords(NamedTuple):
    """The subject of a mail, what to do if it wasn't you, and the page to do it on."""

    subject: str
    remedy: str
    page: str


_PASSKEYS: Final = "/settings/passkeys"
_KEYS: Final = ("revoke it", "/developer")
_ALLOWED: Final = ("revoke its access", "/settings/applications")
_APPLICATIONS: Final = ("delete it", "/developer/applications")
_CONNECTIONS: Final = ("remove it", "/settings/connections")
NOTICES: Final[Mapping[EventKind, NoticeWords]] = {
    EventKind.SIGN_IN: NoticeWords(
        "New sign-in to Tallystick", "sign out that session", "/settings/sessions"
    ),
    EventKind.PASSKEY_ADDED: NoticeWords("New passkey in your account", "remove it", _PASSKEYS),
    EventKind.PASSKEY_REMOVED: NoticeWords(
        "Passkey removed from your account", "add one again", _PASSKEYS
    ),
    EventKind.RECOVERY_CODES_CREATED: NoticeWords(
        "New recovery codes for your account", "create new ones", _PASSKEYS
    ),
    EventKind.RECOVERY_CODE_USED: NoticeWords(
        "Someone signed in with a recovery code", "sign out that session", "/settings/sessions"
    ),
    EventKind.ADMIN_RESET_PASSKEYS: NoticeWords(
        "An administrator removed the passkeys of your account", "add one again", _PASSKEYS
    ),
    EventKind.KEY_CREATED: NoticeWords("New ingest key in your account", *_KEYS),
    EventKind.KEY_ROTATED: NoticeWords("Ingest key rotated in your account", *_KEYS),
    EventKind.TOKEN_CREATED: NoticeWords("New read token in your account", *_KEYS),
    EventKind.APPLICATION_CREATED: NoticeWords(
        "New OAuth application in your account", *_APPLICATIONS
    ),
    EventKind.APPLICATION_CHANGED: NoticeWords(
        "OAuth application changed in your account", *_APPLICATIONS
    ),
    EventKind.APPLICATION_SECRET_ROTATED: NoticeWords(
        "New secret for your OAuth application", *_APPLICATIONS
    ),
    EventKind.TARGET_ADDED: NoticeWords(
        "New webhook or Slack channel in your account", "remove it", "/settings/notices"
    ),
    EventKind.CONNECTION_ADDED: NoticeWords(
        "New provider connection in your account", *_CONNECTIONS
    ),
    EventKind.CONNECTION_KEY_REPLACED: NoticeWords(
        "Key of a provider connection replaced in your account", *_CONNECTIONS
    ),
    EventKind.CONNECTION_REMOVED: NoticeWords(
        "Provider connection removed from your account", "connect it again", "/settings/connections"
    ),
    EventKind.ACCESS_GRANTED: NoticeWords("An application can now read your audits", *_ALLOWED),
}


def post_notice(
    session: Session, account: Account, kind: EventKind, *, browser: str, subject: str | None
) -> str | None:
    """Post the mail in the transaction of its event; return its ID, to enqueue after the commit."""
    parameters = {
        "event": str(kind),
        "browser": browser,
        "subject": subject or "",
        "occurred_at": utc_now().isoformat(),
        "time_zone": account.time_zone,
    }
    return post_mail(
        session,
        kind=SECURITY_NOTICE,
        recipient=account.email,
        account_id=account.id,
        parameters=parameters,
    )


def write_notice(config: Config, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    notice = NOTICES[EventKind(parameters["event"])]
    moment = datetime.fromisoformat(parameters["occurred_at"])
    words = {
        "headline": notice.subject,
        "when": minute(moment, parameters.get("time_zone")),
        "browser": parameters["browser"],
        "subject": parameters["subject"],
        "remedy": notice.remedy,
        "remedy_url": f"{config.base_url}{notice.page}",
        "activity_url": f"{config.base_url}/settings/activity",
        "site": config.base_url,
    }
    return notice.subject, words
