"""WebAuthn: what a browser is asked for a passkey, and whether its answer is right.

The relying party is the host of BASE_URL. Nothing here writes to the database. The library is
imported where it is called: with its dependencies it takes 16 MB, which most web processes never
need.
"""

import ipaddress
import json
import secrets
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from service.models.identity.accounts import Account
from service.models.identity.passkeys import Passkey
from service.web.http.current import current_config

if TYPE_CHECKING:
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor
    from webauthn.registration.verify_registration_response import VerifiedRegistration

ANSWER_FIELD: Final = "credential"
_MAX_ANSWER_LENGTH: Final = 16 * 1024
_MAX_CREDENTIAL_ID_BYTES: Final = 1023  # as WebAuthn allows
_CHALLENGE_BYTES: Final = 64


class PasskeyError(Exception):
    """The answer isn't that of the passkey to this question."""


def has_passkeys() -> bool:
    """Check whether browsers can use passkeys on this site: not if its host is an IP address."""
    try:
        ipaddress.ip_address(_host())
    except ValueError:
        return True
    return False


def generate_challenge() -> bytes:
    return secrets.token_bytes(_CHALLENGE_BYTES)


def registration_options(account: Account, known: list[Passkey], challenge: bytes) -> str:
    """Return the JSON with which a browser creates a passkey that the account doesn't have yet."""
    import webauthn
    from webauthn.helpers import structs

    options = webauthn.generate_registration_options(
        rp_id=_host(),
        rp_name="Tallystick",
        user_id=account.id.encode(),
        user_name=account.email,
        challenge=challenge,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.PREFERRED,
            user_verification=structs.UserVerificationRequirement.PREFERRED,
        ),
        exclude_credentials=_describe(known),
    )
    return webauthn.options_to_json(options)


def verify_registration(answer: str, challenge: bytes) -> "VerifiedRegistration":
    import webauthn

    try:
        verified = webauthn.verify_registration_response(
            credential=_bounded(answer),
            expected_challenge=challenge,
            expected_rp_id=_host(),
            expected_origin=_origin(),
        )
    except _wrong_answers() as error:
        raise PasskeyError from error
    if len(verified.credential_id) > _MAX_CREDENTIAL_ID_BYTES:
        raise PasskeyError
    return verified


def authentication_options(known: list[Passkey], challenge: bytes) -> str:
    """Return the JSON with which a browser proves that it has one of these passkeys."""
    import webauthn

    options = webauthn.generate_authentication_options(
        rp_id=_host(), challenge=challenge, allow_credentials=_describe(known)
    )
    return webauthn.options_to_json(options)


def credential_id_of(answer: str) -> bytes:
    """Return the ID of the passkey that an answer claims to be of."""
    try:
        encoded = json.loads(_bounded(answer))["rawId"]
        return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise PasskeyError from error


def verify_authentication(answer: str, passkey: Passkey, challenge: bytes) -> int:
    """Return the passkey's new counter; a counter that doesn't grow may be that of a copy."""
    import webauthn

    try:
        verified = webauthn.verify_authentication_response(
            credential=_bounded(answer),
            expected_challenge=challenge,
            expected_rp_id=_host(),
            expected_origin=_origin(),
            credential_public_key=passkey.public_key,
            credential_current_sign_count=passkey.sign_count,
        )
    except _wrong_answers() as error:
        raise PasskeyError from error
    return verified.new_sign_count


def _wrong_answers() -> tuple[type[Exception], ...]:
    """Return what the library raises; the last four for answers that no browser makes."""
    from webauthn.helpers.exceptions import WebAuthnException

    return WebAuthnException, ValueError, TypeError, LookupError, AttributeError


def _bounded(answer: str) -> str:
    if len(answer) > _MAX_ANSWER_LENGTH:
        raise PasskeyError
    return answer


def _describe(known: list[Passkey]) -> "list[PublicKeyCredentialDescriptor]":
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

    return [PublicKeyCredentialDescriptor(id=passkey.credential_id) for passkey in known]


def _host() -> str:
    return urlsplit(current_config().base_url).hostname or ""


def _origin() -> str:
    base = urlsplit(current_config().base_url)
    return f"{base.scheme}://{base.netloc}"
