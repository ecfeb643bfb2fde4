"""Pages that need a signed-in visitor: who is signed out is led to sign-in, and back."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from flask import redirect, request, url_for

from service.auth import require_login
from service.sessions import find_web_session

P = ParamSpec("P")


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
