"""/sign-in/passkey: the second step of a sign-in, for accounts with a passkey."""

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug import Response

from service.models.identity.passkeys import PENDING_MINUTES, PendingSignIn, list_passkeys
from service.models.identity.security_events import EventKind
from service.web.auth.browsers import remember_browser
from service.web.auth.passkeys.answers import ANSWER_FIELD, authentication_options
from service.web.auth.passkeys.pending_sign_in import (
    count_wrong_answer,
    find_pending,
    is_passkey,
    is_recovery_code,
)
from service.web.auth.security_events import record_event
from service.web.auth.signing_in import complete_sign_in
from service.web.http.current import get_session
from service.web.http.headers import keep_private

blueprint = Blueprint("second_step", __name__, url_prefix="/sign-in/passkey")
blueprint.after_request(keep_private)


@blueprint.get("")
def ask() -> str | Response:
    pending = find_pending()
    return redirect(url_for("public.sign_in"), 303) if pending is None else _show(pending)


@blueprint.post("")
def answer() -> Response | tuple[str, int]:
    """Complete the sign-in with a passkey or a recovery code."""
    pending = find_pending()
    if pending is None:
        return redirect(url_for("public.sign_in"), 303)
    code, passkey = request.form.get("code", ""), request.form.get(ANSWER_FIELD, "")
    if passkey and is_passkey(pending, passkey):
        return _complete(pending, used_passkey=True)
    if code and is_recovery_code(pending, code):
        record_event(EventKind.RECOVERY_CODE_USED, pending.account_id)
        return _complete(pending, used_passkey=False)
    may_retry = count_wrong_answer(pending)
    record_event(EventKind.PASSKEY_REFUSED, pending.account_id)
    get_session().commit()
    if not may_retry:
        return render_template("pages/account/sign_in_refused.html"), 422
    problem = (
        "This recovery code is wrong or was already used."
        if code
        else "We couldn't verify this passkey. Try again, or use another one."
    )
    return _show(pending, problem), 422


def _complete(pending: PendingSignIn, *, used_passkey: bool) -> Response:
    _secret, browser_hash = remember_browser()
    return redirect(complete_sign_in(pending, browser_hash, used_passkey=used_passkey), 303)


def _show(pending: PendingSignIn, problem: str = "") -> str:
    known = list(list_passkeys(get_session(), pending.account_id))
    return render_template(
        "pages/passkeys/second_step.html",
        options=authentication_options(known, pending.challenge),
        problem=problem,
        minutes=PENDING_MINUTES,
    )
