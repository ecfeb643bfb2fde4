"""Proof Key for Code Exchange (RFC 7636): S256, and of every client.

Authlib's own extension lets confidential clients go without, and takes `plain`.
"""

import re
import secrets
from typing import Any, Final, cast

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc7636 import CodeChallenge, create_s256_code_challenge

METHOD: Final = "S256"
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # what base64url makes of a SHA-256
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class RequiredChallenge(CodeChallenge):
    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        asked = grant.request.payload.data
        if asked.get("code_challenge_method") != METHOD:
            raise InvalidRequestError(f"code_challenge_method must be {METHOD}.")
        if _CHALLENGE.fullmatch(asked.get("code_challenge", "")) is None:
            raise InvalidRequestError(
                "code_challenge must be the base64url of a SHA-256, 43 characters."
            )

    def validate_code_verifier(self, grant: Any, result: Any) -> None:
        request = grant.request
        verifier = request.form.get("code_verifier", "")
        if _VERIFIER.fullmatch(verifier) is None:
            raise InvalidRequestError("code_verifier must be 43 to 128 unreserved characters.")
        expected = request.authorization_code.row.code_challenge
        if not secrets.compare_digest(_challenge_of(verifier), expected):
            raise InvalidGrantError("code_verifier does not belong to the code_challenge.")


def _challenge_of(verifier: str) -> str:
    return cast(str, create_s256_code_challenge(verifier))  # type: ignore[no-untyped-call]
