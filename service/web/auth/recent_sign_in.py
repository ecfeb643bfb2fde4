"""Require a sign-in of the last minutes for what would make a stolen session lasting.

The only place that decides what is recent. Another way to prove who is there only has to start a
new session, as a sign-in link does.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, Final, ParamSpec
from urllib.parse import urlencode

from flask import current_app, redirect, request, url_for

from service.models.base import utc_now
from service.models.identity.security_events import EventKind
from service.models.identity.sign_in import KnownSession
from service.web.auth.security_events import record_refusal
from service.web.auth.web_sessions import find_web_session
from service.web.schemas.local_paths import find_local_path

P = ParamSpec("P")

RECENT: Final = timedelta(minutes=15)


def is_recent(known: KnownSession) -> bool:
    return utc_now() - known.signed_in_at <= RECENT


def require_recent_sign_in(
    page: str = "", *, anchor: str = "", kept: tuple[str, ...] = ()
) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Send visitors who signed in too long ago to confirm that it's them; place it below
    `require_visitor`.

    They come back to this address, or after a form to the `page` (an endpoint) that shows it, with
    the `kept` fields filled in.
    """

    def decorate(view: Callable[P, Any]) -> Callable[P, Any]:
        @wraps(view)
        def checked(*args: P.args, **kwargs: P.kwargs) -> Any:
            known = find_web_session()
            if known is not None and is_recent(known):
                return view(*args, **kwargs)
            record_refusal(EventKind.CONFIRMATION_REQUIRED)
            onward = _form_page(page, anchor, kept) if page else request.full_path.rstrip("?")
            return redirect(url_for("confirmation.ask", next=onward), 303)

        return checked

    return decorate


def _form_page(page: str, anchor: str, kept: tuple[str, ...]) -> str:
    """Return the path of the form's page, with what was typed unless that is too long."""
    [rule] = current_app.url_map.iter_rules(page)
    named = {name: (request.view_args or {})[name] for name in rule.arguments}
    plain = url_for(page, **named, _anchor=anchor or None)
    typed = [(name, value) for name in kept for value in request.form.getlist(name)]
    if not typed:
        return plain
    path, _, end = plain.partition("#")
    return find_local_path(f"{path}?{urlencode([('typed', anchor), *typed])}#{end}") or plain
