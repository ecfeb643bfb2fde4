"""WebAuthn: what a browser is asked for a passkey, and whether its answer is right.

The relying party is the host of BASE_URL. Nothing here writes to the database.
"""

import ipaddress
import json
from typing import Final
from urllib.parse import urlsplit

from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import base64url_to_bytes
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)
from webauthn.registration.verify_registration_response import VerifiedRegistration

from service.models.identity.accounts import Account
from service.models.identity.passkeys import Passkey
from service.web.http.current import current_config

ANSWER_FIELD: Final = "credential"
_MAX_ANSWER_LENGTH: Final = 16 * 1024
_MAX_CREDENTIAL_ID_BYTES: Final = 1023  # as WebAuthn allows
_SELECTION: Final = AuthenticatorSelectionCriteria(
    resident_key=ResidentKeyRequirement.PREFERRED,
    user_verification=UserVerificationRequirement.PREFERRED,
)
# The library raises the others for answers that no browser makes.
_WRONG: Final = (WebAuthnException, ValueError, TypeError, LookupError, AttributeError)


class PasskeyError(Exception):
    """The answer isn't that of the passkey to this question."""


def has_passkeys() -> bool:
    """Check whether browsers can use passkeys on this site: not if its host is an IP address."""
    try:
        ipaddress.ip_address(_host())
    except ValueError:
        return True
    return False


def registration_options(account: Account, known: list[Passkey], challenge: bytes) -> str:
    """Return the JSON with which a browser creates a passkey that the account doesn't have yet."""
    options = generate_registration_options(
        rp_id=_host(),
        rp_name="Tallystick",
        user_id=account.id.encode(),
        user_name=account.email,
        challenge=challenge,
        authenticator_selection=_SELECTION,
        exclude_credentials=_describe(known),
    )
    return options_to_json(options)


def verify_registration(answer: str, challenge: bytes) -> VerifiedRegistration:
    try:
        verified = verify_registration_response(
            credential=_bounded(answer),
            expected_challenge=challenge,
            expected_rp_id=_host(),
            expected_origin=_origin(),
        )
    except _WRONG as error:
        raise PasskeyError from error
    if len(verified.credential_id) > _MAX_CREDENTIAL_ID_BYTES:
        raise PasskeyError
    return verified


def authentication_options(known: list[Passkey], challenge: bytes) -> str:
    """Return the JSON with which a browser proves that it has one of these passkeys."""
    options = generate_authentication_options(
        rp_id=_host(), challenge=challenge, allow_credentials=_describe(known)
    )
    return options_to_json(options)


def credential_id_of(answer: str) -> bytes:
    """Return the ID of the passkey that an answer claims to be of."""
    try:
        return base64url_to_bytes(json.loads(_bounded(answer))["rawId"])
    except (*_WRONG, RecursionError) as error:
        raise PasskeyError from error


def verify_authentication(answer: str, passkey: Passkey, challenge: bytes) -> int:
    """Return the passkey's new counter; a counter that doesn't grow may be that of a copy."""
    try:
        verified = verify_authentication_response(
            credential=_bounded(answer),
            expected_challenge=challenge,
            expected_rp_id=_host(),
            expected_origin=_origin(),
            credential_public_key=passkey.public_key,
            credential_current_sign_count=passkey.sign_count,
        )
    except _WRONG as error:
        raise PasskeyError from error
    return verified.new_sign_count


def _bounded(answer: str) -> str:
    if len(answer) > _MAX_ANSWER_LENGTH:
        raise PasskeyError
    return answer


def _describe(known: list[Passkey]) -> list[PublicKeyCredentialDescriptor]:
    return [PublicKeyCredentialDescriptor(id=passkey.credential_id) for passkey in known]


def _host() -> str:
    return urlsplit(current_config().base_url).hostname or ""


def _origin() -> str:
    base = urlsplit(current_config().base_url)
    return f"{base.scheme}://{base.netloc}"
