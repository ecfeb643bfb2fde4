"""The `Idempotency-Key` header: a request that was answered before is not done again."""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec

from flask import Response, jsonify, request

from service.errors import BadRequestError
from service.models.audits.audits import find_replay
from service.web.auth.callers import current_caller
from service.web.http.current import get_session

P = ParamSpec("P")

HEADER: Final = "Idempotency-Key"
HEADER_DOCUMENT: Final = {
    "in": "header",
    "name": HEADER,
    "required": False,
    "description": "Remembered as long as its audit; the key alone decides a replay.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]{1,255}$"},
}
_SHAPE: Final = re.compile(r"[ -~]{1,255}")


def idempotency_key() -> str | None:
    """The request's key; raises `BadRequestError` for one that is no printable ASCII."""
    return check_key(request.headers.get(HEADER))


def check_key(key: str | None) -> str | None:
    if key is not None and _SHAPE.fullmatch(key) is None:
        raise BadRequestError(f"{HEADER} must be 1 to 255 printable ASCII characters.")
    return key


def replayable(route: str) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Answer a key that is known already, whatever the body says now."""

    def decorate(view: Callable[P, Any]) -> Callable[P, Any]:
        @wraps(view)
        def answered(*args: P.args, **kwargs: P.kwargs) -> Any:
            key = idempotency_key()
            if key is not None:
                session = get_session()
                earlier = find_replay(session, current_caller().account_id, route, key)
                session.rollback()  # gives the connection back before the body is decoded
                if earlier is not None:
                    return replay(earlier.audit_id)
            return view(*args, **kwargs)

        return answered

    return decorate


def replay(audit_id: str) -> Response:
    return jsonify(audit_id=audit_id, replayed=True)
