"""/oauth/authorize: the consent screen of an OAuth application."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec

from authlib.oauth2 import OAuth2Error
from flask import Response, make_response, render_template, request

from service.models.identity.security_events import EventKind
from service.web.auth.callers import current_caller, limit_by_caller
from service.web.auth.recent_sign_in import require_recent_sign_in
from service.web.auth.scopes import SCOPE_WORDS, find_scopes
from service.web.auth.security_events import record_event
from service.web.auth.visitors import require_visitor
from service.web.http.current import get_session
from service.web.http.headers import allow_form_target, keep_private
from service.web.http.limits import limiter, per_minute
from service.web.oauth import Consent, current_server
from service.web.oauth.redirects import form_target, shown_host
from service.web.openapi.blueprint import Blueprint

P = ParamSpec("P")

_ERRORS: Final = {
    400: "Unknown client or redirect URI. Shows an error page and doesn't redirect.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}
_DECIDE_ERRORS: Final = {
    **_ERRORS,
    403: "The CSRF token is missing or invalid.",
    413: "The body is too large.",
    422: "Approved without any scope. Shows the form again.",
}
_WORDS: Final = {
    "response_type": "`code`",
    "client_id": "`oac_…`",
    "redirect_uri": "A registered redirect URI, matched exactly.",
    "scope": "`read:audits`, `read:findings` or both, separated by spaces or pluses.",
    "state": "Returned unchanged.",
    "code_challenge": "The base64url-encoded SHA-256 hash of the code verifier (RFC 7636).",
    "code_challenge_method": "`S256`",
}
_PARAMETERS: Final = [
    {
        "in": "query",
        "name": name,
        "required": name != "state",
        "description": words,
        "schema": {"type": "string"},
    }
    for name, words in _WORDS.items()
]
_FORM: Final = {
    "required": True,
    "content": {
        "application/x-www-form-urlencoded": {
            "schema": {
                "type": "object",
                "required": ["csrf_token", "decision"],
                "properties": {
                    "csrf_token": {"type": "string"},
                    "decision": {"type": "string", "enum": ["allow", "deny"]},
                    "scope": {"type": "array", "items": {"enum": list(SCOPE_WORDS)}},
                },
            }
        }
    },
}
_HTML: Final = {"type": "string"}
_LOCATION: Final = {"Location": {"schema": {"type": "string", "format": "uri-reference"}}}
_BACK: Final = "Redirects to the application with `code` or `error`, `state` and `iss`"

blueprint = Blueprint("consent", __name__, description="The consent screen.")
blueprint.after_request(keep_private)


def asked_for(view: Callable[Concatenate[Any, P], Any]) -> Callable[P, Any]:
    """Check the request of the application, and pass the grant to the view.

    An error goes to the application if its redirect URI is known; else this page shows it. Before
    it goes anywhere, the visitor signs in: nobody can send strangers elsewhere with our links.
    """

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Any:
        server = current_server()
        try:
            grant = server.find_consent_grant()
        except OAuth2Error as error:
            answer = partial(server.handle_error_response, None, error)  # type: ignore[arg-type]
            return require_visitor(answer)()
        return view(grant, *args, **kwargs)

    return checked


@blueprint.route("/oauth/authorize", methods=["GET"])
@limiter.limit(per_minute("oauth_limit_per_minute"), key_func=limit_by_caller)
@asked_for
@require_visitor
@require_recent_sign_in()
@blueprint.documented(
    operation="ask_for_consent",
    media_type="text/html",
    security="session",
    parameters=_PARAMETERS,
    errors=_ERRORS,
)
@blueprint.alt_response(
    303, headers=_LOCATION, description=f"{_BACK}, or to sign-in.", success=True
)
@blueprint.response(200, _HTML, content_type="text/html", description="The consent screen.")
def ask(grant: Any) -> Response:
    """Show the consent screen of an application."""
    return _show(grant)


@blueprint.route("/oauth/authorize", methods=["POST"])
@limiter.limit(per_minute("oauth_limit_per_minute"), key_func=limit_by_caller)
@asked_for
@require_visitor
@require_recent_sign_in()
@blueprint.documented(
    operation="decide_on_consent",
    media_type="text/html",
    security="session",
    parameters=_PARAMETERS,
    requestBody=_FORM,
    errors=_DECIDE_ERRORS,
)
@blueprint.response(303, None, headers=_LOCATION, description=f"{_BACK}.")
def decide(grant: Any) -> Any:
    """Submit the user's decision."""
    consent = None
    if request.form.get("decision") == "allow":
        chosen = request.form.getlist("scope")
        scopes = [scope for scope in _asked_scopes(grant) if scope in chosen]
        if not scopes:
            return _show(grant, "Select at least one permission, or cancel.", 422)
        consent = Consent(current_caller().account_id, scopes)
        record_event(EventKind.ACCESS_GRANTED, consent.account_id, scopes=scopes)
    response = current_server().answer_consent(grant, consent)
    get_session().commit()
    return response


def _asked_scopes(grant: Any) -> list[str]:
    return find_scopes(grant.request.payload.scope)


def _show(grant: Any, problem: str = "", status: int = 200) -> Response:
    page = render_template(
        "pages/developer/consent.html",
        application=grant.request.client.application,
        email=current_caller().email,
        host=shown_host(grant.redirect_uri),
        asked={scope: SCOPE_WORDS[scope] for scope in _asked_scopes(grant)},
        problem=problem,
    )
    response = make_response(page, status)
    # Browsers that apply `form-action` to redirects would stop the way back.
    allow_form_target(response, form_target(grant.redirect_uri))
    return response
