"""Sign in with an emailed link, and sign out. /auth/* serves programs and browsers."""

from typing import Any, Final

from flask import Response, jsonify, make_response, render_template, request

from service.core import tokens
from service.mail.delivery import mail_file_name
from service.mail.messages import SIGN_IN
from service.models.identity.sign_in import (
    ConsumedLink,
    add_magic_link,
    consume_magic_link,
    count_open_links,
    end_presented_session,
    open_account,
)
from service.models.mail.outbox import post_mail
from service.payments import adopt_payments
from service.web.auth import web_sessions as sessions
from service.web.auth.callers import limit_by_caller
from service.web.http.bodies import bounded_body
from service.web.http.current import current_config, current_queues, get_session
from service.web.http.error_responses import wants_page
from service.web.http.limits import limiter, per_minute
from service.web.openapi.blueprint import JSON_OR_PAGE, Blueprint
from service.web.schemas.local_paths import HOME, find_local_path
from service.web.schemas.sign_in import MagicLinkSchema, MessageSchema, VerifyQuerySchema

_POST_ERRORS: Final = {
    400: "The body is malformed.",
    403: "The request came from another site, or the form has expired.",
    413: "The body is too large.",
    415: "The body is neither JSON nor a form.",
    503: "The service is busy or restarting.",
}
_LOGOUT_ERRORS: Final = {status: when for status, when in _POST_ERRORS.items() if status != 415}
_FORM_DOCUMENT: Final = {
    "content": {
        "application/x-www-form-urlencoded": {"schema": {"$ref": "#/components/schemas/MagicLink"}}
    }
}
_HTML: Final = {"type": "string"}
# Browsers and email clients send these headers when they prefetch a link.
_PURPOSE_HEADERS: Final = ("Sec-Purpose", "Purpose", "X-Purpose", "X-Moz")
_PURPOSES: Final = ("prefetch", "prerender", "preview")

blueprint = Blueprint("session", __name__, description="Signing in and out.")


@blueprint.route("/auth/magic-link", methods=["POST"])
@limiter.limit(per_minute("magic_link_limit_per_minute"), key_func=limit_by_caller)
@bounded_body
@blueprint.documented(
    operation="ask_for_sign_in_link",
    errors={**_POST_ERRORS, 422: "Invalid email address.", 429: "The rate limit is exceeded."},
    media_type=JSON_OR_PAGE,
    requestBody=_FORM_DOCUMENT,
)
@blueprint.arguments(MagicLinkSchema, location="json_or_form")
@blueprint.page_too()
@blueprint.response(200, MessageSchema, description="The same response for every address.")
def magic_link(body: dict[str, Any]) -> Response:
    """Request a sign-in link by email."""
    config, session, email = current_config(), get_session(), body["email"]
    onward = find_local_path(body["next"])
    minutes = config.magic_link_minutes
    message = f"We sent you a sign-in link. It expires in {minutes} minutes and can be used once."
    if count_open_links(session, email) >= config.magic_link_limit_per_recipient:
        # Others may be asking for this address. The links in its mailbox still work.
        return _answer("Check your email", message)
    link = add_magic_link(
        session, email, config.secret_key, minutes=config.magic_link_minutes, next_path=onward
    )
    parameters = {"link_id": link.id, "key_id": tokens.key_id(config.secret_key)}
    mail_id = post_mail(
        session, kind=SIGN_IN, recipient=email, parameters=parameters, expires_at=link.expires_at
    )
    session.commit()
    current_queues().enqueue_mail(mail_id)
    outbox = config.local_outbox
    if outbox and mail_id and wants_page():
        file = outbox / mail_file_name(mail_id)
        return _page("sign_in_file", file=str(file), minutes=str(minutes))
    return _answer("Check your email", message)


@blueprint.route("/auth/verify", methods=["GET"])
@blueprint.documented(
    operation="sign_in",
    media_type="text/html",
    errors={
        422: "The link is invalid, used, expired or replaced by a newer one.",
        503: "The service is busy or restarting.",
    },
)
@blueprint.arguments(VerifyQuerySchema, location="query")
@blueprint.response(
    200,
    _HTML,
    content_type="text/html",
    description="Signed in. The page redirects to its destination.",
)
def verify(query: dict[str, str]) -> Response:
    """Sign in with an emailed link. HEAD requests and prefetching don't use the link."""
    if _is_prefetch():
        return _page("sign_in_continue")
    secret_hash = tokens.find_hash(tokens.Kind.MAGIC_LINK, query["token"])
    link = consume_magic_link(get_session(), secret_hash) if secret_hash else None
    if link is None:
        return _page("sign_in_refused", status=422)
    _start_session(link)
    return _page("signed_in", onward=link.next_path or HOME)


@blueprint.route("/auth/logout", methods=["POST"])
@bounded_body
@blueprint.documented(operation="sign_out", errors=_LOGOUT_ERRORS, media_type=JSON_OR_PAGE)
@blueprint.page_too()
@blueprint.response(200, MessageSchema, description="Signed out, or already signed out.")
def logout() -> Response:
    """Sign this browser out."""
    secret_hash = sessions.presented_hash()
    if secret_hash is not None:
        end_presented_session(get_session(), secret_hash)
        get_session().commit()
    sessions.forget()
    return _answer("You're signed out", "You're signed out.")


def _is_prefetch() -> bool:
    purposes = " ".join(request.headers.get(name, "") for name in _PURPOSE_HEADERS).lower()
    return request.method == "HEAD" or any(purpose in purposes for purpose in _PURPOSES)


def _start_session(link: ConsumedLink) -> None:
    """Start a new session for this browser and end its previous session."""
    session = get_session()
    account = open_account(session, link.email)
    adopt_payments(session, account)
    previous = sessions.presented_hash()
    if previous is not None:
        end_presented_session(session, previous)
    secret = sessions.add_web_session(session, account.id)
    session.commit()
    sessions.remember(secret)


def _answer(title: str, message: str) -> Response:
    if wants_page():
        return _page("message", title=title, message=message)
    return jsonify(message=message)


def _page(name: str, *, status: int = 200, **words: str) -> Response:
    return make_response(render_template(f"pages/account/{name}.html", **words), status)
