"""Recovery codes: 119 random bits in letters and digits that are hard to confuse when typed.

More than 112, so a hash without salt is enough (OWASP ASVS 6.5.2)."""

import hashlib
import re
import secrets
from typing import Final

_ALPHABET: Final = "23456789abcdefghjkmnpqrstuvwxyz"
_LENGTH: Final = 24
_GROUP: Final = 4
_SHAPE: Final = re.compile(rf"[{_ALPHABET}]{{{_LENGTH}}}")


def mint_code() -> tuple[str, bytes]:
    """Return a new code, to be shown once, and its hash, which may be stored."""
    letters = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    groups = [letters[at : at + _GROUP] for at in range(0, _LENGTH, _GROUP)]
    return "-".join(groups), _hash(letters)


def find_code_hash(typed: str) -> bytes | None:
    """Return the hash of a code, however its groups and letters are typed; else None."""
    letters = re.sub(r"[\s-]", "", typed[:100]).lower()
    return _hash(letters) if _SHAPE.fullmatch(letters) else None


def _hash(letters: str) -> bytes:
    return hashlib.sha256(letters.encode()).digest()
