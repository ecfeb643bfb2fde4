"""A blueprint of endpoints that read: credential, rate limit, conditional responses, document."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from service.web.auth.callers import (
    EMAIL_HEADER_DOCUMENT,
    credential_id,
    require_login,
    require_scope,
)
from service.web.http.conditional import (
    ETAG_HEADERS,
    IF_NONE_MATCH_DOCUMENT,
    LIMIT_HEADERS,
    NOT_MODIFIED,
    add_conditions,
    add_limit_headers,
)
from service.web.http.limits import limiter, per_minute
from service.web.openapi.blueprint import Blueprint

READ_ERRORS: Final = {
    401: "The read token is missing, invalid, expired or revoked.",
    403: "The token doesn't have the required scope.",
    422: "A parameter is invalid; the message names it.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}
NO_AUDIT: Final = "Your account has no audit with this ID."
# Of an endpoint for one audit that takes a session.
SESSION_ERRORS: Final = {
    401: "You aren't signed in, or x-user-email names a different account.",
    404: NO_AUDIT,
    422: "Invalid audit ID.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}


class ReadBlueprint(Blueprint):
    """Endpoints of one resource that can be read with a token or a session."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.after_request(lambda response: add_limit_headers(add_conditions(response)))

    def reads(
        self,
        scopes: str | Sequence[str] | None,
        schema: Any,
        *,
        operation: str,
        description: str,
        errors: Mapping[int, str] = READ_ERRORS,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Require a credential, apply the read limit and document the response.

        The credential is a token with these scopes or, without scopes, a web session.
        """
        needed = (scopes,) if isinstance(scopes, str) else tuple(scopes or ())
        by_email = [] if needed else [EMAIL_HEADER_DOCUMENT]
        decorators = (
            require_scope(*needed) if needed else require_login,
            limiter.limit(per_minute("read_limit_per_minute"), key_func=credential_id),
            self.documented(
                operation=operation,
                security=("read_token", "access_token") if needed else "session",
                scopes=needed,
                parameters=[*by_email, IF_NONE_MATCH_DOCUMENT],
                errors=errors,
                headers=LIMIT_HEADERS,
            ),
            self.alt_response(304, headers=ETAG_HEADERS, description=NOT_MODIFIED, success=True),
            self.response(200, schema, headers=ETAG_HEADERS, description=description),
        )

        def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
            return reduce(lambda made, decorator: decorator(made), reversed(decorators), view)

        return decorate

    def also_csv(self, example: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Document that the response may be CSV instead."""
        document: Callable[[Callable[..., Any]], Callable[..., Any]] = self.alt_response(
            200,
            schema={"type": "string"},
            content_type="text/csv",
            example=example,
            headers=ETAG_HEADERS,
            description="",
            success=True,
        )
        return document
