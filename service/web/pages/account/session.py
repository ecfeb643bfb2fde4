"""Sign in with an emailed link, and sign out. /auth/* serves programs and browsers."""

from typing import Any, Final

from flask import Response, jsonify, make_response, render_template, url_for

from service.core import tokens
from service.mail.addresses import mask_address
from service.mail.delivery import mail_file_name
from service.mail.messages import SIGN_IN
from service.models.identity.security_events import EventKind
from service.models.identity.sign_in import (
    MagicLink,
    add_magic_link,
    count_open_links,
    end_presented_session,
    find_magic_link,
)
from service.models.mail.outbox import post_mail
from service.web.auth import web_sessions as sessions
from service.web.auth.browsers import is_browser_of, remember_browser, set_browser_cookie
from service.web.auth.callers import limit_by_caller
from service.web.auth.security_events import record_event
from service.web.auth.signing_in import record_refused_link, sign_in_with
from service.web.auth.web_sessions import find_web_session
from service.web.http.bodies import small_body
from service.web.http.current import current_config, current_queues, get_session
from service.web.http.error_responses import wants_page
from service.web.http.headers import keep_private
from service.web.http.limits import limiter, per_minute
from service.web.openapi.blueprint import JSON_OR_PAGE, Blueprint
from service.web.schemas.local_paths import find_local_path
from service.web.schemas.sign_in import (
    MagicLinkSchema,
    MessageSchema,
    VerifyQuerySchema,
    VerifySchema,
)

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
_SIGNED_IN: Final = "/dashboard"
_LINK_ERRORS: Final = {
    422: "The link is invalid, used, expired or replaced by a newer one.",
    503: "The service is busy or restarting.",
}
_VERIFY_FORM: Final = {
    "content": {
        "application/x-www-form-urlencoded": {"schema": {"$ref": "#/components/schemas/Verify"}}
    }
}

blueprint = Blueprint("session", __name__, description="Signing in and out.")


@blueprint.route("/auth/magic-link", methods=["POST"])
@limiter.limit(per_minute("magic_link_limit_per_minute"), key_func=limit_by_caller)
@small_body
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
    secret, browser_hash = remember_browser()
    if count_open_links(session, email) >= config.magic_link_limit_per_recipient:
        # Others may be asking for this address. The links in its mailbox still work.
        return _remembered(_say_what_was_sent(), secret)
    link = add_magic_link(
        session,
        email,
        config.secret_key,
        minutes=config.magic_link_minutes,
        next_path=onward,
        browser_hash=browser_hash,
    )
    parameters = {"link_id": link.id, "key_id": tokens.key_id(config.secret_key)}
    mail_id = post_mail(
        session, kind=SIGN_IN, recipient=email, parameters=parameters, expires_at=link.expires_at
    )
    session.commit()
    current_queues().enqueue_mail(mail_id)
    return _remembered(_say_what_was_sent(mail_id), secret)


def _remembered(response: Response, secret: str) -> Response:
    set_browser_cookie(response, secret)
    return response


def _say_what_was_sent(mail_id: str | None = None) -> Response:
    config = current_config()
    minutes, outbox = config.magic_link_minutes, config.local_outbox
    if outbox and mail_id and wants_page():
        file = outbox / mail_file_name(mail_id)
        return _page("sign_in_file", file=str(file), minutes=str(minutes))
    message = f"We sent you a sign-in link. It expires in {minutes} minutes and can be used once."
    return _answer("Check your email", message)


@blueprint.route("/auth/verify", methods=["GET"])
@blueprint.documented(operation="sign_in", media_type="text/html", errors=_LINK_ERRORS)
@blueprint.arguments(VerifyQuerySchema, location="query")
@blueprint.response(
    200,
    _HTML,
    content_type="text/html",
    description="Signed in; the page redirects to its destination. In another browser than the"
    " one that requested the link: a form that signs in. If the account has a passkey: a page that"
    " leads to it.",
)
def verify(query: dict[str, str]) -> Response:
    """Sign in with an emailed link, in the browser that requested it.

    Other browsers, HEAD requests and prefetching get a form and don't use the link.
    """
    secret_hash = tokens.find_hash(tokens.Kind.MAGIC_LINK, query["token"])
    link = find_magic_link(get_session(), secret_hash) if secret_hash else None
    if link is None or not link.is_usable:
        return _refuse(link)
    if is_browser_of(link.browser_hash):
        return _sign_in(link, link.next_path or _SIGNED_IN)
    known = find_web_session()
    page = _page(
        "sign_in_confirm",
        token=query["token"],
        shown=mask_address(link.email),
        current=known.email if known else "",
    )
    return keep_private(page)


@blueprint.route("/auth/verify", methods=["POST"])
@small_body
@blueprint.documented(
    operation="confirm_sign_in",
    media_type=JSON_OR_PAGE,
    errors={**_POST_ERRORS, **_LINK_ERRORS},
    requestBody=_VERIFY_FORM,
)
@blueprint.arguments(VerifySchema, location="json_or_form")
@blueprint.response(200, _HTML, content_type="text/html", description="Signed in.")
def confirm(body: dict[str, str]) -> Response:
    """Sign in with an emailed link, in any browser."""
    secret_hash = tokens.find_hash(tokens.Kind.MAGIC_LINK, body["token"])
    link = find_magic_link(get_session(), secret_hash) if secret_hash else None
    if link is None:
        return _refuse(None)
    # The request for the link chose its destination, so only the browser it came from goes there.
    return _sign_in(link, _SIGNED_IN)


@blueprint.route("/auth/logout", methods=["POST"])
@small_body
@blueprint.documented(operation="sign_out", errors=_LOGOUT_ERRORS, media_type=JSON_OR_PAGE)
@blueprint.page_too()
@blueprint.response(200, MessageSchema, description="Signed out, or already signed out.")
def logout() -> Response:
    """Sign this browser out."""
    secret_hash, known = sessions.presented_hash(), sessions.find_web_session()
    if secret_hash is not None:
        end_presented_session(get_session(), secret_hash)
        if known is not None:
            record_event(EventKind.SIGN_OUT, known.account_id)
        get_session().commit()
    sessions.forget()
    return _answer("You're signed out", "You're signed out.")


def _sign_in(link: MagicLink, onward: str) -> Response:
    secret, browser_hash = remember_browser()
    done = sign_in_with(link.secret_hash, browser_hash, onward)
    if done is None:
        return _refuse(link)
    if done.needs_passkey:
        page = render_template("pages/passkeys/needed.html", onward=url_for("second_step.ask"))
        response = make_response(page)
    else:
        response = _page("signed_in", onward=onward, email=done.email)
    set_browser_cookie(response, secret)
    return response


def _refuse(link: MagicLink | None) -> Response:
    record_refused_link(link)
    return _page("sign_in_refused", status=422)


def _answer(title: str, message: str) -> Response:
    if wants_page():
        return _page("message", title=title, message=message)
    return jsonify(message=message)


def _page(name: str, *, status: int = 200, **words: str) -> Response:
    return make_response(render_template(f"pages/account/{name}.html", **words), status)
