"""A security key in software, which can be made to answer wrongly."""

import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url, encode_cbor

ORIGIN: Final = "http://localhost:8000"
_PRESENT: Final = 0x01
_ATTESTED: Final = 0x40


@dataclass
class Authenticator:
    """One credential, whose counter grows with each use by `step`."""

    origin: str = ORIGIN
    host: str = "localhost"
    step: int = 1
    count: int = 0
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def create(self, options: str) -> str:
        """Answer what `navigator.credentials.create` is asked."""
        asked = json.loads(options)
        data = self._data(_PRESENT | _ATTESTED) + bytes(16)
        data += len(self.credential_id).to_bytes(2) + self.credential_id + self._public_key()
        attestation = encode_cbor({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client_data("webauthn.create", asked["challenge"])
        return self._answer(clientDataJSON=client, attestationObject=attestation)

    def get(self, options: str) -> str:
        """Answer what `navigator.credentials.get` is asked."""
        asked = json.loads(options)
        self.count += self.step
        data, client = self._data(_PRESENT), self._client_data("webauthn.get", asked["challenge"])
        signed = data + hashlib.sha256(client).digest()
        signature = self.key.sign(signed, ec.ECDSA(hashes.SHA256()))
        return self._answer(clientDataJSON=client, authenticatorData=data, signature=signature)

    def _client_data(self, kind: str, challenge: str) -> bytes:
        said = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(said).encode()

    def _data(self, flags: int) -> bytes:
        host = hashlib.sha256(self.host.encode()).digest()
        return host + bytes([flags]) + self.count.to_bytes(4)

    def _public_key(self) -> bytes:
        numbers = self.key.public_key().public_numbers()
        x, y = numbers.x.to_bytes(32), numbers.y.to_bytes(32)
        return encode_cbor({1: 2, 3: -7, -1: 1, -2: x, -3: y})

    def _answer(self, **parts: bytes) -> str:
        shown = bytes_to_base64url(self.credential_id)
        response: dict[str, Any] = {name: bytes_to_base64url(part) for name, part in parts.items()}
        answer = {"id": shown, "rawId": shown, "type": "public-key", "response": response}
        return json.dumps(answer)


def with_challenge(options: str, challenge: bytes) -> str:
    """The same question with another challenge."""
    return json.dumps({**json.loads(options), "challenge": bytes_to_base64url(challenge)})


def challenge_in(options: str) -> bytes:
    return base64url_to_bytes(json.loads(options)["challenge"])
