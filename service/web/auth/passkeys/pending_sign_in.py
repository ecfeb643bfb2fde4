"""A sign-in that waits for a passkey: its browser has a cookie, and a row has the challenge."""

from typing import Final

from flask import session as cookie

from service.core import tokens
from service.core.recovery_codes import find_code_hash
from service.models.base import utc_now
from service.models.identity.passkeys import (
    MAX_WRONG_ANSWERS,
    PendingSignIn,
    add_pending_sign_in,
    find_passkey,
    find_pending_sign_in,
    use_recovery_code,
)
from service.web.auth.passkeys.answers import (
    PasskeyError,
    credential_id_of,
    generate_challenge,
    verify_authentication,
)
from service.web.http.current import get_session

_FIELD: Final = "pending"


def add_pending(account_id: str, onward: str) -> str:
    """Add the row; pass the returned secret to `await_passkey` after the commit."""
    return add_pending_sign_in(
        get_session(), account_id, challenge=generate_challenge(), next_path=onward
    )


def await_passkey(secret: str) -> None:
    """Keep the browser's session, if any, until the sign-in is complete."""
    cookie[_FIELD] = secret


def find_pending() -> PendingSignIn | None:
    """Return this browser's sign-in, unless it has expired."""
    secret = cookie.get(_FIELD)
    secret_hash = (
        tokens.find_hash(tokens.Kind.PENDING_SIGN_IN, secret) if isinstance(secret, str) else None
    )
    return find_pending_sign_in(get_session(), secret_hash) if secret_hash else None


def is_passkey(pending: PendingSignIn, answer: str) -> bool:
    """Check the answer of a passkey and record its use."""
    session = get_session()
    try:
        passkey = find_passkey(session, pending.account_id, credential_id_of(answer))
        if passkey is None:
            return False
        passkey.sign_count = verify_authentication(answer, passkey, pending.challenge)
    except PasskeyError:
        return False
    passkey.last_used_at = utc_now()
    return True


def is_recovery_code(pending: PendingSignIn, typed: str) -> bool:
    """Check a recovery code and use it up."""
    code_hash = find_code_hash(typed)
    return code_hash is not None and use_recovery_code(get_session(), pending.account_id, code_hash)


def count_wrong_answer(pending: PendingSignIn) -> bool:
    """Return whether the person may try again, with a new challenge."""
    pending.wrong_answers += 1
    pending.challenge = generate_challenge()
    if pending.wrong_answers < MAX_WRONG_ANSWERS:
        return True
    get_session().delete(pending)
    return False
