"""/settings/activity: what happened in an account, as far as its security is concerned."""

from collections.abc import Mapping
from typing import Final

from flask import render_template

from service.models.identity.security_events import (
    SHOWN_EVENTS,
    EventKind,
    list_security_events,
)
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_config, get_session

_WORDS: Final[Mapping[str, str]] = {
    EventKind.SIGN_IN: "Signed in",
    EventKind.SIGN_IN_REFUSED: "Sign-in link rejected: used, replaced or expired",
    EventKind.SIGN_OUT: "Signed out",
    EventKind.SESSION_ENDED: "Session signed out",
    EventKind.CONFIRMATION_REQUIRED: "Stopped until confirmed with a new sign-in",
    EventKind.CROSS_SITE_REFUSED: "Blocked a request from another site",
    EventKind.PASSKEY_ADDED: "Passkey added",
    EventKind.PASSKEY_REMOVED: "Passkey removed",
    EventKind.PASSKEY_REFUSED: "Passkey or recovery code rejected",
    EventKind.RECOVERY_CODES_CREATED: "Recovery codes created",
    EventKind.RECOVERY_CODE_USED: "Signed in with a recovery code",
    EventKind.KEY_CREATED: "Ingest key created",
    EventKind.KEY_ROTATED: "Ingest key rotated",
    EventKind.KEY_REVOKED: "Ingest key revoked",
    EventKind.TOKEN_CREATED: "Read token created",
    EventKind.TOKEN_REVOKED: "Read token revoked",
    EventKind.APPLICATION_CREATED: "OAuth application registered",
    EventKind.APPLICATION_CHANGED: "OAuth application changed",
    EventKind.APPLICATION_SECRET_ROTATED: "OAuth application secret rotated",
    EventKind.APPLICATION_DELETED: "OAuth application deleted",
    EventKind.ACCESS_GRANTED: "Application authorized to read your audits",
    EventKind.ACCESS_REVOKED: "Application access revoked",
    EventKind.TARGET_ADDED: "Webhook or Slack channel added",
    EventKind.TARGET_ENABLED: "Webhook or Slack channel enabled",
    EventKind.TARGET_REMOVED: "Webhook or Slack channel removed",
    EventKind.ADMIN_SIGNED_OUT: "An administrator signed out all sessions",
    EventKind.ADMIN_RESET_PASSKEYS: "An administrator removed all passkeys",
    EventKind.LINK_REVOKED: "Report link revoked",
    EventKind.CONNECTION_ADDED: "Provider connected",
    EventKind.CONNECTION_KEY_REPLACED: "Key of a provider replaced",
    EventKind.CONNECTION_REMOVED: "Provider disconnected",
    EventKind.LINK_CREATED: "Report link created",
    EventKind.LINK_RENEWED: "Report link renewed",
    EventKind.FUTURE_CALLS_DELETED: "Calls dated after today deleted",
}
_COMMAND: Final = "Command line"

blueprint = PrivatePages("activity", __name__, url_prefix="/settings/activity")


@blueprint.get("")
@require_visitor
def home() -> str:
    events = list_security_events(get_session(), current_caller().account_id)
    rows = []
    for event in events:
        # A later release may have written kinds that this one doesn't know.
        words = _WORDS.get(event.kind, event.kind.replace("_", " ").capitalize())
        if event.details.get("others"):
            words = "All other sessions signed out"
        elif "count" in event.details:
            words = "All report links revoked"
        rows.append((event, words, event.browser or _COMMAND))
    return render_template(
        "pages/account/activity.html",
        rows=rows,
        is_cut=len(events) == SHOWN_EVENTS,
        days=current_config().activity_retention_days,
    )
