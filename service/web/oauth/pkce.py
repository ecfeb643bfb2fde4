"""Proof Key for Code Exchange (RFC 7636): S256, required of every client.

Authlib's own extension exempts confidential clients and accepts `plain`.
"""

import re
import secrets
from typing import Any, Final

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc7636 import CodeChallenge, create_s256_code_challenge

METHOD: Final = "S256"
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # a SHA-256 digest as base64url
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class RequiredChallenge(CodeChallenge):
    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        parameters = grant.request.payload.data
        if parameters.get("code_challenge_method") != METHOD:
            raise InvalidRequestError(f"code_challenge_method must be {METHOD}.")
        if _CHALLENGE.fullmatch(parameters.get("code_challenge", "")) is None:
            raise InvalidRequestError(
                "code_challenge must be a base64url-encoded SHA-256 hash (43 characters)."
            )

    def validate_code_verifier(self, grant: Any, result: Any) -> None:
        request = grant.request
        verifier = request.form.get("code_verifier", "")
        if _VERIFIER.fullmatch(verifier) is None:
            raise InvalidRequestError("code_verifier must be 43 to 128 unreserved characters.")
        expected = request.authorization_code.row.code_challenge
        found = create_s256_code_challenge(verifier)  # type: ignore[no-untyped-call]
        if not secrets.compare_digest(found, expected):
            raise InvalidGrantError("code_verifier doesn't match the code_challenge.")
