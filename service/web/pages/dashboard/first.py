"""The first minutes of an account: a key made in place, and whether its first call has arrived."""

from typing import Any

from flask import jsonify, redirect, url_for
from werkzeug import Response

from service.core.tokens import make_dsn
from service.models.access.credentials import KeyLimitError, add_ingest_key
from service.models.calls.spend import find_last_day
from service.models.identity.accounts import get_account
from service.models.identity.security_events import EventKind
from service.web.auth.callers import current_caller
from service.web.auth.recent_sign_in import require_recent_sign_in
from service.web.auth.security_events import record_event
from service.web.auth.visitors import PrivatePages, current_days, require_visitor
from service.web.http.current import current_config, get_session
from service.web.pages.dashboard.page import show_first_steps

_LABEL = "First key"

blueprint = PrivatePages("first_steps", __name__, url_prefix="/dashboard")


@blueprint.get("/first")
@require_visitor
def progress() -> Response:
    """Return whether the account has calls yet, for the page that waits for them."""
    of = current_days()  # those of the dashboard, which must then show the calls
    account_id = current_caller().account_id
    found = find_last_day(get_session(), account_id, of.today(), is_local=of.is_local)
    return jsonify(is_ready=found is not None)


@blueprint.post("/key")
@require_visitor
@require_recent_sign_in("dashboard.dashboard")
def mint_key() -> Any:
    """Create an ingest key, and show it once in the examples of the first steps."""
    session = get_session()
    owner = get_account(session, current_caller().account_id)
    try:
        key, secret = add_ingest_key(session, owner, _LABEL)
    except KeyLimitError:
        session.rollback()
        return redirect(url_for("developer.home"), 303)
    record_event(EventKind.KEY_CREATED, owner.id, prefix=key.prefix)
    session.commit()
    return show_first_steps(secret, make_dsn(current_config().base_url, secret))
