"""/settings/sessions: the browsers that are signed in, and signing them out."""

from typing import Final

from flask import Blueprint, redirect, render_template, url_for
from werkzeug import Response

from service.auth import current_caller
from service.db import get_session
from service.errors import NotFoundError
from service.extensions import current_config
from service.models.sign_in import end_other_sessions, end_session, list_sessions
from service.pages.visitors import require_visitor

# Each browser also names those before it in this list, so the first that fits counts.
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)

blueprint = Blueprint("settings", __name__, url_prefix="/settings")


@blueprint.get("/sessions")
@require_visitor
def sessions() -> str:
    caller, idle_days = current_caller(), current_config().session_idle_days
    found = list_sessions(get_session(), caller.account_id, idle_days)
    rows = [(one, describe_browser(one.user_agent)) for one in found]
    return render_template("pages/sessions.html", rows=rows, caller=caller)


@blueprint.post("/sessions/<session_id>/revoke")
@require_visitor
def revoke(session_id: str) -> Response:
    """Sign one browser out; it may be this one."""
    if not end_session(get_session(), current_caller().account_id, session_id):
        raise NotFoundError("No browser of yours has this session.")
    get_session().commit()
    return _back()


@blueprint.post("/sessions/revoke-others")
@require_visitor
def revoke_others() -> Response:
    caller = current_caller()
    end_other_sessions(get_session(), caller.account_id, caller.credential_id)
    get_session().commit()
    return _back()


def describe_browser(user_agent: str) -> str:
    """A browser and a system by their names, as far as they are known."""
    browser, system = _name(_BROWSERS, user_agent), _name(_SYSTEMS, user_agent)
    if browser is None:
        return system or user_agent[:40] or "An unknown browser"
    return f"{browser} on {system}" if system else browser


def _name(known: tuple[tuple[str, str], ...], user_agent: str) -> str | None:
    return next((name for mark, name in known if mark in user_agent), None)


def _back() -> Response:
    return redirect(url_for("settings.sessions"), 303)
