"""Require a signed-in visitor on pages; signed-out visitors go to sign-in and back."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec

from flask import Blueprint, Flask, redirect, request, url_for
from sqlalchemy.exc import SQLAlchemyError

from service.models.audits.audits import ACCOUNT, INGEST, UPLOAD
from service.models.identity.sign_in import KnownSession
from service.reports.html import moment
from service.web.auth.admin_gate import may_see_admin
from service.web.auth.callers import require_login
from service.web.auth.web_sessions import find_web_session
from service.web.http.headers import keep_private

P = ParamSpec("P")

SOURCE_WORDS: Final[Mapping[str, str]] = {
    UPLOAD: "Upload",
    INGEST: "API batch",
    ACCOUNT: "Account",
}


class PrivatePages(Blueprint):
    """Pages of visitors, which no cache keeps."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.after_request(keep_private)


def require_visitor(view: Callable[P, Any]) -> Callable[P, Any]:
    """Redirect signed-out visitors of a page to sign-in."""
    authenticated = require_login(view)

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Any:
        if find_web_session() is not None:
            return authenticated(*args, **kwargs)
        # A submitted form isn't repeated after sign-in, so only GET requests are returned to.
        onward = request.full_path.rstrip("?") if request.method == "GET" else None
        return redirect(url_for("public.sign_in", next=onward), 303)

    return checked


def show_visitors(app: Flask) -> None:
    """Make the visitor available to every template."""
    app.jinja_env.filters["moment"] = lambda value: moment(value, find_zone())
    app.jinja_env.globals.update(
        find_visitor=find_visitor, may_see_admin=may_see_admin, source_words=SOURCE_WORDS
    )


def find_zone() -> str | None:
    """Return the time zone that the visitor has chosen."""
    visitor = find_visitor()
    return visitor.time_zone if visitor else None


def find_visitor() -> KnownSession | None:
    """Return the visitor's session, if any; None while the database is unavailable.

    Error pages use it as well, including the page shown when the database is down.
    """
    try:
        return find_web_session()
    except SQLAlchemyError:
        return None
