"""/settings/applications: applications that may read the visitor's audits."""

from flask import redirect, render_template, url_for
from werkzeug import Response

from service.errors import NotFoundError
from service.models.access.oauth import list_allowed, withdraw
from service.models.identity.security_events import EventKind
from service.web.auth.callers import current_caller
from service.web.auth.scopes import SCOPE_WORDS
from service.web.auth.security_events import record_event
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_session

blueprint = PrivatePages("allowed", __name__, url_prefix="/settings/applications")


@blueprint.get("")
@require_visitor
def home() -> str:
    rows = list_allowed(get_session(), current_caller().account_id)
    return render_template("pages/developer/allowed.html", rows=rows, scope_words=SCOPE_WORDS)


@blueprint.post("/<application_id>/withdraw")
@require_visitor
def withdraw_application(application_id: str) -> Response:
    """Revoke all access of one application immediately."""
    if not withdraw(get_session(), current_caller().account_id, application_id):
        raise NotFoundError("Application not found. Its access may already be revoked.")
    record_event(EventKind.ACCESS_REVOKED, current_caller().account_id)
    get_session().commit()
    return redirect(url_for("allowed.home"), 303)
