"""/settings/passkeys: the passkeys and security keys of an account, and its recovery codes."""

import time
from typing import TYPE_CHECKING, Final

from flask import redirect, render_template, request, url_for
from flask import session as cookie
from werkzeug import Response

from service.errors import InvalidRequestError, NotFoundError
from service.models.identity.accounts import get_account
from service.models.identity.passkeys import (
    MAX_PASSKEYS,
    Passkey,
    count_recovery_codes,
    has_passkey,
    is_registered,
    list_passkeys,
    lock_passkeys,
    remove_passkey,
    replace_recovery_codes,
)
from service.models.identity.security_events import EventKind
from service.web.auth.callers import current_caller
from service.web.auth.passkeys.answers import (
    ANSWER_FIELD,
    PasskeyError,
    generate_challenge,
    has_passkeys,
    registration_options,
    verify_registration,
)
from service.web.auth.recent_sign_in import require_recent_sign_in
from service.web.auth.security_events import record_event
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_session
from service.web.schemas.labels import read_label

if TYPE_CHECKING:
    from webauthn.registration.verify_registration_response import VerifiedRegistration

_CHALLENGE: Final = "passkey_challenge"  # in the cookie, with the time when it ends
_CHALLENGE_SECONDS: Final = 600
_UNNAMED: Final = "Passkey"

blueprint = PrivatePages("passkeys", __name__, url_prefix="/settings/passkeys")


@blueprint.get("")
@require_visitor
def home() -> str:
    session, account_id = get_session(), current_caller().account_id
    return render_template(
        "pages/passkeys/home.html",
        passkeys=list_passkeys(session, account_id),
        codes_left=count_recovery_codes(session, account_id),
        is_available=has_passkeys(),
    )


@blueprint.get("/add")
@require_visitor
@require_recent_sign_in()
def ask_to_add() -> str:
    return _show_form()


@blueprint.post("/add")
@require_visitor
@require_recent_sign_in("passkeys.ask_to_add")
def add() -> str | Response | tuple[str, int]:
    """Add a passkey; the first one comes with recovery codes, shown once."""
    session, account_id = get_session(), current_caller().account_id
    name = read_label(request.form, "name") or _UNNAMED
    verified = _find_registration()
    known = lock_passkeys(session, account_id)
    if len(known) >= MAX_PASSKEYS:
        raise InvalidRequestError(f"An account can have {MAX_PASSKEYS} passkeys. Remove one first.")
    if verified is None or is_registered(session, verified.credential_id):
        return _show_form("We couldn't add this passkey. Try again, or use another one."), 422
    passkey = Passkey(account_id=account_id, name=name, credential_id=verified.credential_id)
    passkey.public_key = verified.credential_public_key
    passkey.sign_count = verified.sign_count
    session.add(passkey)
    record_event(EventKind.PASSKEY_ADDED, account_id)
    codes = [] if known else replace_recovery_codes(session, account_id)
    session.commit()
    return _show_codes(codes) if codes else redirect(url_for("passkeys.home"), 303)


@blueprint.post("/<passkey_id>/remove")
@require_visitor
@require_recent_sign_in("passkeys.home")
def remove(passkey_id: str) -> Response:
    """Remove a passkey. Without any, a sign-in link alone signs in again."""
    session, account_id = get_session(), current_caller().account_id
    if remove_passkey(session, account_id, passkey_id) is None:
        raise NotFoundError("This passkey doesn't exist or was already removed.")
    record_event(EventKind.PASSKEY_REMOVED, account_id)
    session.commit()
    return redirect(url_for("passkeys.home"), 303)


@blueprint.post("/recovery-codes")
@require_visitor
@require_recent_sign_in("passkeys.home")
def renew_codes() -> str:
    """Replace the recovery codes, and show the new ones once."""
    session, account_id = get_session(), current_caller().account_id
    if not has_passkey(session, account_id):
        raise InvalidRequestError("Add a passkey first.")
    codes = replace_recovery_codes(session, account_id)
    record_event(EventKind.RECOVERY_CODES_CREATED, account_id)
    session.commit()
    return _show_codes(codes)


def _find_registration() -> "VerifiedRegistration | None":
    """Return the new passkey of the form, if it answers this browser's last question."""
    challenge, ends_at = cookie.pop(_CHALLENGE, ("", 0))
    if time.time() > ends_at:
        return None
    try:
        answer = request.form.get(ANSWER_FIELD, "")
        return verify_registration(answer, bytes.fromhex(challenge))
    except PasskeyError:
        return None


def _show_form(problem: str = "") -> str:
    session, account_id = get_session(), current_caller().account_id
    challenge, known = generate_challenge(), list(list_passkeys(session, account_id))
    cookie[_CHALLENGE] = (challenge.hex(), int(time.time()) + _CHALLENGE_SECONDS)
    account = get_account(session, account_id)
    return render_template(
        "pages/passkeys/add.html",
        options=registration_options(account, known, challenge),
        problem=problem,
        is_first=not known,
        is_available=has_passkeys(),
    )


def _show_codes(codes: list[str]) -> str:
    return render_template("pages/passkeys/recovery_codes.html", codes=codes)
