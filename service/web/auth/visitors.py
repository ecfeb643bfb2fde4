"""Pages that need a signed-in visitor: who is signed out is led to sign-in, and back."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec

from flask import Flask, redirect, request, url_for
from sqlalchemy.exc import SQLAlchemyError

from service.models.audits.audits import INGEST, UPLOAD
from service.models.identity.sign_in import KnownSession
from service.web.auth.callers import require_login
from service.web.auth.web_sessions import find_web_session

P = ParamSpec("P")

SOURCE_WORDS: Final[Mapping[str, str]] = {UPLOAD: "Upload", INGEST: "Ingest batch"}


def require_visitor(view: Callable[P, Any]) -> Callable[P, Any]:
    """`require_login` for pages."""
    admitted = require_login(view)

    @wraps(view)
    def led(*args: P.args, **kwargs: P.kwargs) -> Any:
        if find_web_session() is not None:
            return admitted(*args, **kwargs)
        # What a form would have done is not done later, so only pages are come back to.
        onward = request.full_path.rstrip("?") if request.method == "GET" else None
        return redirect(url_for("public.sign_in", next=onward), 303)

    return led


def show_visitors(app: Flask) -> None:
    """Let every page ask who looks at it."""
    app.jinja_env.globals.update(find_visitor=find_visitor, source_words=SOURCE_WORDS)


def find_visitor() -> KnownSession | None:
    """Who is signed in; without a cookie nothing is looked up, and a page shows without the answer.

    Pages that tell of a database that is away ask, too.
    """
    try:
        return find_web_session()
    except SQLAlchemyError:
        return None
